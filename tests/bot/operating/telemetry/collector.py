"""An OpenTelemetry collector on loopback: it decodes what is sent with OpenTelemetry's own
classes."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class SeenSpan:
    """A span as it arrived."""

    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    process: str
    failed: bool
    seconds: float


@dataclass
class Collector:
    """What has arrived."""

    url: str = ""
    spans: list[SeenSpan] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    status: int = 200

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """One request; the status to answer with."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )

        self.headers.append(headers)
        if path != "/v1/traces" or headers.get("content-type") != "application/x-protobuf":
            return 404
        self.bodies.append(
            gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        )
        request = ExportTraceServiceRequest.FromString(self.bodies[-1])
        for resource in request.resource_spans:
            of = _values(resource.resource.attributes)
            for scope in resource.scope_spans:
                self.spans += [
                    _seen(span, str(of.get("faultline.process"))) for span in scope.spans
                ]
        return self.status


def _seen(span: Any, process: str) -> SeenSpan:
    return SeenSpan(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        attributes=_values(span.attributes),
        process=process,
        failed=span.status.code == 2,
        seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that listens."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = collector.take(
                self.path, {k.lower(): v for k, v in self.headers.items()}, body
            )
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("location", "http://127.0.0.1:9/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
