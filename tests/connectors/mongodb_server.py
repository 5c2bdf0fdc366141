"""A server on loopback that speaks MongoDB's protocol, and answers as its manual documents.

OP_MSG for commands, OP_QUERY for the first greeting ("MongoDB Wire Protocol"), SCRAM-SHA-256 for
logins (RFC 7677).
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import socketserver
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import bson

OP_REPLY, OP_QUERY, OP_MSG = 1, 2004, 2013
ROUNDS, SALT = 4096, b"0123456789abcdef"
GREETING = {
    "helloOk": True,
    "ismaster": True,
    "isWritablePrimary": True,
    "maxBsonObjectSize": 16_777_216,
    "maxMessageSizeBytes": 48_000_000,
    "maxWriteBatchSize": 100_000,
    "minWireVersion": 0,
    "maxWireVersion": 25,
    "logicalSessionTimeoutMinutes": 30,
    "connectionId": 1,
    "readOnly": False,
    "ok": 1.0,
}
OPEN_TO_ALL = frozenset({"hello", "ismaster", "saslstart", "saslcontinue", "ping", "endsessions"})


def refusal(code: int, text: str) -> dict[str, Any]:
    """An error as the server answers it."""
    return {"ok": 0.0, "code": code, "codeName": "Refused", "errmsg": text}


@dataclass
class MongodbServer:
    """Its answers by the names of commands, or what makes one of a command; others are unknown
    commands."""

    answers: Mapping[str, Mapping[str, Any] | Callable[[Mapping[str, Any]], Mapping[str, Any]]]
    login: tuple[str, str] | None = None
    port: int = 0
    asked: list[Mapping[str, Any]] = field(default_factory=list)

    def answer(self, command: Mapping[str, Any], scram: Scram) -> Mapping[str, Any]:
        """To one command of a connection."""
        name = next(iter(command))
        if name.lower() in ("hello", "ismaster"):
            mechanisms = {"saslSupportedMechs": ["SCRAM-SHA-256"]} if self.login else {}
            return {**GREETING, **mechanisms}
        self.asked.append(command)
        if name == "saslStart":
            return scram.started(command["payload"])
        if name == "saslContinue":
            return scram.continued(command["payload"])
        if self.login and not scram.is_open and name.lower() not in OPEN_TO_ALL:
            return refusal(13, f"Command {name} requires authentication")
        if name in ("ping", "endSessions"):
            return {"ok": 1.0}
        found = self.answers.get(name) or refusal(59, f"no such command: '{name}'")
        return found(command) if callable(found) else found


class Scram:
    """The server's side of one login."""

    def __init__(self, login: tuple[str, str] | None) -> None:
        self._login = login
        self.is_open = False
        self._told = ""

    def started(self, payload: bytes) -> Mapping[str, Any]:
        bare = payload.decode().removeprefix("n,,")
        nonce = bare.partition("r=")[2] + "more"
        first = f"r={nonce},s={base64.b64encode(SALT).decode()},i={ROUNDS}"
        self._told = f"{bare},{first}"
        return {"conversationId": 1, "done": False, "payload": first.encode(), "ok": 1.0}

    def continued(self, payload: bytes) -> Mapping[str, Any]:
        said, _, proof = payload.decode().partition(",p=")
        assert self._login is not None
        user, password = self._login
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, ROUNDS)
        key, text = _mac(salted, b"Client Key"), f"{self._told},{said}".encode()
        mask = _mac(hashlib.sha256(key).digest(), text)
        expected = bytes(a ^ b for a, b in zip(key, mask, strict=True))
        if base64.b64decode(proof) != expected or f"n={user}," not in self._told:
            return refusal(18, "Authentication failed.")
        self.is_open = True
        proven = base64.b64encode(_mac(_mac(salted, b"Server Key"), text)).decode()
        return {"conversationId": 1, "done": True, "payload": f"v={proven}".encode(), "ok": 1.0}


def _mac(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, hashlib.sha256).digest()


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        server: MongodbServer = self.server.told  # type: ignore[attr-defined]
        scram = Scram(server.login)
        with contextlib.suppress(OSError, struct.error):
            while header := self.rfile.read(16):
                length, request, _, kind = struct.unpack("<iiii", header)
                body = self.rfile.read(length - 16)
                if kind == OP_QUERY:
                    start = body.index(b"\0", 4) + 9
                    answer = bson.encode(server.answer(bson.decode(body[start:]), scram))
                    reply = struct.pack("<iqii", 8, 0, 0, 1) + answer
                    self._send(request, OP_REPLY, reply)
                else:
                    command = bson.decode(body[5:])
                    answer = bson.encode(server.answer(command, scram))
                    self._send(request, OP_MSG, struct.pack("<IB", 0, 0) + answer)

    def _send(self, request: int, kind: int, body: bytes) -> None:
        self.wfile.write(struct.pack("<iiii", 16 + len(body), 1, request, kind) + body)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no mistake of the server's."""


@contextlib.contextmanager
def serving(
    server: MongodbServer, context: ssl.SSLContext | None = None
) -> Iterator[MongodbServer]:
    """While it listens at `server.port`."""
    listening = _Server(("127.0.0.1", 0), _Connection)
    listening.told = server  # type: ignore[attr-defined]
    if context is not None:
        listening.socket = context.wrap_socket(
            listening.socket, server_side=True, do_handshake_on_connect=False
        )
    server.port = listening.server_address[1]
    thread = threading.Thread(target=listening.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join(30)
