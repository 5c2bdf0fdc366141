"""Servers on loopback that speak one provider's dialect to the letter: paths, events, fields and
refusals as the provider documents them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class WireServer:
    """`answer` gets each request and those before it."""

    answer: Callable[[Asked], Response]
    requests: list[Asked] = field(default_factory=list)
    origin: str = ""

    async def handle(self, request: Request) -> Response:
        raw = await request.body()
        is_json = raw[:1] in (b"{", b"[")
        body = json.loads(raw) if is_json else raw.decode()
        asked = Asked(request.method, request.url.path, dict(request.headers), body)
        self.requests.append(asked)
        return await run_in_threadpool(self.answer, asked)

    def posts(self, ending: str) -> list[Any]:
        """Bodies of the POST requests to a path."""
        return [a.body for a in self.requests if a.method == "POST" and a.path.endswith(ending)]


@contextmanager
def wire_server(answer: Callable[[Asked], Response]) -> Iterator[WireServer]:
    server = WireServer(answer)
    app = Starlette(routes=[Route("/{path:path}", server.handle, methods=["GET", "POST"])])
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off")
    process = uvicorn.Server(config)
    thread = threading.Thread(target=process.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not process.started:
        assert time.monotonic() < deadline, "the local server did not start"
        time.sleep(0.005)
    port = process.servers[0].sockets[0].getsockname()[1]
    server.origin = f"http://127.0.0.1:{port}"
    try:
        yield server
    finally:
        process.should_exit = True
        thread.join(timeout=10)


def chunks(*events: Mapping[str, Any], done: bool = True) -> Response:
    """Server-sent events of chat completions."""
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    lines += ["data: [DONE]\n\n"] if done else []
    return Response("".join(lines), media_type="text/event-stream")


def named(*events: Mapping[str, Any]) -> Response:
    """Server-sent events whose name is their `type`: Responses API and Messages API."""
    lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Response("".join(lines), media_type="text/event-stream")


def refusal(status: int, body: Any, **headers: str) -> Response:
    """An error with the provider's own body."""
    named_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return JSONResponse(body, status_code=status, headers=named_headers)
