"""Whoever opens connections and sends little or nothing holds neither memory nor places."""

from __future__ import annotations

import contextlib
import re
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from faultline.bot.processes.http_limits import (
    BACKLOG,
    FEWEST_CONNECTIONS,
    MAX_CONNECTIONS,
    MAX_HEAD_BYTES,
    RESERVED_DESCRIPTORS,
    ConnectionLimits,
    connections_within,
    limited_connections,
    raise_descriptor_limit,
)

HEAD_S, BODY_S, UNREAD_S = 1.0, 0.6, 0.5
TRICKLERS = 300
LARGE = 64 * 1024 * 1024
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
Address = tuple[str, int]


async def length(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{len(await request.body())} bytes")


async def large(_request: Request) -> Response:
    return Response(b"x" * LARGE)


async def refused(_request: Request) -> Response:
    return PlainTextResponse("signature", status_code=401)


@contextlib.contextmanager
def serving(limits: ConnectionLimits) -> Iterator[Address]:
    routes = [
        Route("/", length, methods=["POST", "GET"]),
        Route("/large", large),
        Route("/refused", refused, methods=["POST"]),
    ]
    config = uvicorn.Config(
        Starlette(routes=routes),
        host="127.0.0.1",
        port=0,
        lifespan="off",
        log_level="error",
        http=limited_connections(limits),
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()
    server.should_exit = True
    server.force_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def address() -> Iterator[Address]:
    with serving(ConnectionLimits(HEAD_S, BODY_S, UNREAD_S)) as address:
        yield address


def answer(connection: socket.socket) -> bytes:
    """The next answer, with its body: what was left of it would begin the one after it."""
    connection.settimeout(10)
    said, end = b"", None
    while (end is None or len(said) < end) and (piece := connection.recv(65536)):
        said += piece
        head, found, _ = said.partition(b"\r\n\r\n")
        if found:
            length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            end = len(head) + len(found) + (int(length[1]) if length else 0)
    return said


def closed(connection: socket.socket) -> bool:
    """Whether the other end closes, after what it may still say."""
    connection.settimeout(10)
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(65536):
            pass
    return True


def test_a_head_without_end_is_answered_with_400_and_the_connection_closed(
    address: Address,
) -> None:
    with socket.create_connection(address) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * (MAX_HEAD_BYTES + 1))
        assert answer(connection).startswith(b"HTTP/1.1 400 ")


def test_large_bodies_and_many_requests_on_one_connection_are_served(address: Address) -> None:
    size = 4 * MAX_HEAD_BYTES
    request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size + b"b" * size
    with socket.create_connection(address) as connection:
        for _ in range(3):
            connection.sendall(request)
            assert answer(connection).startswith(b"HTTP/1.1 200 ")


def test_a_connection_that_sends_nothing_is_closed(address: Address) -> None:
    with socket.create_connection(address) as connection:
        connection.settimeout(10)
        assert connection.recv(100) == b""


@pytest.mark.parametrize(
    ("before", "piece", "last"),
    [
        (b"POST / HTTP/1.1\r\n", b"A: b\r\n", b"408"),
        (GET + b"POST / HTTP/1.1\r\n", b"A: b\r\n", b"408"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n", b"b", b"408"),
        (GET, b"\r\n", b"408"),
        # Answered before its body was there: nothing is to be added.
        (b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n", b"b", b"401"),
    ],
)
def test_what_trickles_in_is_ended_when_its_time_is_over(
    address: Address, before: bytes, piece: bytes, last: bytes
) -> None:
    began, said = time.monotonic(), b""
    with socket.create_connection(address) as connection:
        connection.sendall(before)
        connection.settimeout(0.1)
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 10:
                with contextlib.suppress(TimeoutError):
                    if not (got := connection.recv(65536)):
                        break
                    said += got
                connection.sendall(piece)
    assert time.monotonic() - began < 5
    assert said.rpartition(b"HTTP/1.1 ")[2].startswith(last)


def test_a_client_that_does_not_read_its_answer_is_let_go(address: Address) -> None:
    with socket.create_connection(address) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(UNREAD_S + 1)
        got = 0
        with contextlib.suppress(ConnectionResetError):
            connection.settimeout(10)
            while piece := connection.recv(1 << 20):
                got += len(piece)
        assert got < LARGE


def test_tricklers_of_one_address_and_of_many_do_not_keep_a_request_out() -> None:
    for limits in (ConnectionLimits(per_address=20), ConnectionLimits(total=20)):
        with serving(limits) as address, ExitStack() as held:
            for _ in range(TRICKLERS):
                one = held.enter_context(socket.create_connection(address))
                one.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nb")
            began = time.monotonic()
            with socket.create_connection(address) as connection:
                connection.sendall(GET)
                assert answer(connection).startswith(b"HTTP/1.1 200 ")
            assert time.monotonic() - began < 5


def test_where_all_are_served_a_new_connection_is_told_to_come_again() -> None:
    limits = ConnectionLimits(total=2)
    with serving(limits) as address, ExitStack() as held:
        for _ in range(2):
            one = held.enter_context(socket.create_connection(address))
            one.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            assert one.recv(1) == b"H"
        with socket.create_connection(address) as connection:
            assert answer(connection).startswith(b"HTTP/1.1 503 ")


def test_an_idle_connection_makes_room_first() -> None:
    with serving(ConnectionLimits(total=2)) as address, ExitStack() as held:
        first, second = (
            held.enter_context(socket.create_connection(address)),
            held.enter_context(socket.create_connection(address)),
        )
        for one in (first, second, first):
            one.sendall(GET)
            assert answer(one).startswith(b"HTTP/1.1 200 ")
        third = held.enter_context(socket.create_connection(address))
        third.sendall(GET)
        assert answer(third).startswith(b"HTTP/1.1 200 ")
        assert closed(second)
        first.sendall(GET)
        assert answer(first).startswith(b"HTTP/1.1 200 ")


def test_a_trusted_proxy_has_no_limit_of_its_own() -> None:
    limits = ConnectionLimits(per_address=4, proxies=["127.0.0.0/8"])
    with serving(limits) as address, ExitStack() as held:
        connections = [held.enter_context(socket.create_connection(address)) for _ in range(12)]
        for one in connections:
            one.sendall(GET)
            assert answer(one).startswith(b"HTTP/1.1 200 ")


def test_the_total_stays_below_the_descriptor_limit() -> None:
    assert connections_within(1024) == 1024 - BACKLOG - RESERVED_DESCRIPTORS
    assert connections_within(1_000_000) == MAX_CONNECTIONS
    assert connections_within(256) == FEWEST_CONNECTIONS


def test_the_descriptor_limit_is_raised_at_the_start() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    code = (
        "import resource; "
        "from faultline.bot.processes.http_limits import raise_descriptor_limit as r; "
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (256, {hard})); "
        "print(r(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said, soft = map(int, done.stdout.split())
    assert said == soft > 256
    assert raise_descriptor_limit() >= 256
