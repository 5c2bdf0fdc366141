"""A provider for Terraform that knows its schemas and nothing else: enough for `validate`, and for
`test` with mocks.

Terraform starts it like any plugin. It speaks version 5 of the plugin protocol (tfplugin5.proto of
Terraform) by gRPC; the few messages are written by hand, so that grpcio is all it needs. Terraform
starts it often: `FAULTLINE_SCHEMAS` names a file with its answer to `GetSchema`, which `python
schema_provider.py SCHEMAS.json ANSWER` writes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from concurrent import futures
from typing import Any

import grpc

NESTED_SINGLE, NESTED_LIST = 1, 2
EVERYTHING = 1 << 29
LIVES_S = 3600


def number(value: int) -> bytes:
    """A varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(tag: int, value: bytes | str | int) -> bytes:
    """One field of a message."""
    if isinstance(value, int):
        return number(tag << 3) + number(value) if value else b""
    encoded = value.encode() if isinstance(value, str) else value
    return number(tag << 3 | 2) + number(len(encoded)) + encoded


def attribute(name: str, how: dict[str, Any]) -> bytes:
    """Schema.Attribute; one named *_wo is write-only, as all of AWS's are."""
    return (
        field(1, name)
        + field(2, json.dumps(how["type"]))
        + field(4, int(how["required"]))
        + field(5, int(how["settable"] and not how["required"]))
        + field(6, int(how["computed"]))
        + field(10, int(name.endswith("_wo")))
    )


def block(body: dict[str, Any]) -> bytes:
    """Schema.Block."""
    out = b"".join(
        field(2, attribute(name, how)) for name, how in sorted(body["attributes"].items())
    )
    for name, how in sorted(body["blocks"].items()):
        nesting = NESTED_SINGLE if how["single"] else NESTED_LIST
        bounds = b"" if how["single"] else field(4, how["least"]) + field(5, how["most"])
        out += field(3, field(1, name) + field(2, block(how["block"])) + field(3, nesting) + bounds)
    return out


def schema(body: dict[str, Any]) -> bytes:
    """Schema."""
    return field(2, block(body))


def schemas(named: dict[str, Any]) -> Iterable[bytes]:
    """Entries of a map of schemas."""
    return (field(1, name) + field(2, schema(body)) for name, body in sorted(named.items()))


def provider_schema(aws_schemas: dict[str, dict[str, Any]]) -> bytes:
    """GetProviderSchema.Response."""
    text = {"type": "string", "required": False, "computed": False, "settable": True}
    provider = {"attributes": {"region": text, "profile": text}, "blocks": {}}
    tags = {"attributes": {"tags": text | {"type": ["map", "string"]}}, "blocks": {}}
    provider["blocks"] = {"default_tags": {"least": 0, "most": 1, "single": False, "block": tags}}
    out = field(1, schema(provider))
    for tag, kind in ((2, "resource"), (3, "data"), (8, "ephemeral")):
        out += b"".join(field(tag, entry) for entry in schemas(aws_schemas[kind]))
    return out


class Provider(grpc.GenericRpcHandler):
    """tfplugin5.Provider: schemas, and yes to every configuration."""

    def __init__(self, schema: bytes) -> None:
        self._schema = schema
        self.stopped = futures.Future[None]()

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        """The handler of a call, or None for what is not known."""
        method = details.method.rpartition("/")[2]
        answer: Callable[[bytes], bytes] | None = {
            "GetSchema": lambda _: self._schema,
            "PrepareProviderConfig": lambda request: (
                request
            ),  # both messages begin with the configuration
            "ValidateResourceTypeConfig": lambda _: b"",
            "ValidateDataSourceConfig": lambda _: b"",
            "ValidateEphemeralResourceConfig": lambda _: b"",
            "Configure": lambda _: b"",
            "Stop": lambda _: b"",
            "Shutdown": self._shut_down,
        }.get(method)
        if answer is None:
            return None
        return grpc.unary_unary_rpc_method_handler(lambda request, _: answer(request))

    def _shut_down(self, _: bytes) -> bytes:
        self.stopped.set_result(None)
        return b""


def main() -> None:
    """Serve until told to stop, or until Terraform is gone."""
    with open(os.environ["FAULTLINE_SCHEMAS"], "rb") as file:
        provider = Provider(file.read())
    options = [
        ("grpc.max_send_message_length", EVERYTHING),
        ("grpc.max_receive_message_length", EVERYTHING),
    ]
    server = grpc.server(futures.ThreadPoolExecutor(8), options=options)
    server.add_generic_rpc_handlers((provider,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"1|5|tcp|127.0.0.1:{port}|grpc\n")
    sys.stdout.flush()
    try:
        provider.stopped.result(timeout=LIVES_S)
    finally:
        server.stop(0)


def write_answer(schemas_file: str, target: str) -> None:
    """Put the answer to GetSchema into a file."""
    with open(schemas_file, encoding="utf-8") as file, open(target, "wb") as out:
        out.write(provider_schema(json.load(file)))


if __name__ == "__main__":
    write_answer(*sys.argv[1:3]) if len(sys.argv) == 3 else main()
