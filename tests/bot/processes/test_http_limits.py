"""A connection cannot fill the memory with a request that never begins."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from bot.processes.http_limits import MAX_HEAD_BYTES, LimitedHead


async def length(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{len(await request.body())} bytes")


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    app = Starlette(routes=[Route("/", length, methods=["POST"])])
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, lifespan="off", log_level="error", http=LimitedHead
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()
    server.should_exit = True
    thread.join(10)


def answer(connection: socket.socket) -> bytes:
    connection.settimeout(10)
    said = b""
    while b"\r\n\r\n" not in said and (piece := connection.recv(65536)):
        said += piece
    return said


def test_a_head_without_end_is_answered_with_400_and_the_connection_closed(
    address: tuple[str, int],
) -> None:
    with socket.create_connection(address) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * (MAX_HEAD_BYTES + 1))
        assert answer(connection).startswith(b"HTTP/1.1 400 ")


def test_large_bodies_and_many_requests_on_one_connection_are_served(
    address: tuple[str, int],
) -> None:
    size = 4 * MAX_HEAD_BYTES
    request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size + b"b" * size
    with socket.create_connection(address) as connection:
        for _ in range(3):
            connection.sendall(request)
            assert answer(connection).startswith(b"HTTP/1.1 200 ")
