"""A real HTTP server on loopback for tests: answers by path, remembers requests, can be slow,
broken or endless."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True)
class Reply:
    """What to answer. `claims` is a content length that may be false; `drip_s` a pause before
    each byte."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    drip_s: float = 0.0
    claims: int | None = None

    @property
    def bytes(self) -> bytes:
        """The body as sent."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Answerer = Callable[[Asked], Reply]


class LocalServer:
    """`with LocalServer() as server: server.on("/path", Reply(...))`; several replies are given one
    after the other."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.refusal: Reply | None = None
        """While set, the answer to everything."""
        self._replies: dict[str, list[Reply] | Answerer] = {}
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._http.block_on_close = False
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def methods(self) -> set[str]:
        """Every method that was used."""
        return {a.method for a in self.asked}

    def on(self, path: str, *replies: Reply | Answerer) -> None:
        """Answer `path` so; the last reply is repeated."""
        first = replies[0]
        self._replies[path] = (
            first if callable(first) else [r for r in replies if isinstance(r, Reply)]
        )

    def paths(self) -> list[str]:
        """The paths asked, in order."""
        return [a.path for a in self.asked]

    def __enter__(self) -> LocalServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(timeout=5)

    def _reply(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        if self.refusal is not None:
            return self.refusal
        known = self._replies.get(asked.path)
        if known is None:
            return Reply({"error": "Not Found"}, status=404)
        if callable(known):
            return known(asked)
        return known.pop(0) if len(known) > 1 else known[0]

    def _handler(server: LocalServer) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                parts = urlsplit(self.path)
                query = parse_qs(parts.query, keep_blank_values=True)
                reply = server._reply(
                    Asked(
                        self.command,
                        parts.path,
                        query,
                        {name.title(): value for name, value in self.headers.items()},
                        self.rfile.read(int(self.headers.get("Content-Length") or 0)),
                    )
                )
                server.closing.wait(reply.delay_s)
                self.close_connection = True
                with contextlib.suppress(OSError):
                    self._send(reply)

            def _send(self, reply: Reply) -> None:
                self.send_response(reply.status)
                for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(reply.claims or len(reply.bytes)))
                self.send_header("Connection", "close")
                self.end_headers()
                if not reply.drip_s:
                    self.wfile.write(reply.bytes)
                    return
                for byte in reply.bytes:
                    if server.closing.is_set():
                        return
                    self.wfile.write(bytes([byte]))
                    time.sleep(reply.drip_s)

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = _answer

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        return Handler
