"""The line between the bot and a vendor: TLS on loopback, one request per connection, well or sick
in one way."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
from collections import Counter
from collections.abc import Coroutine
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from benchmarks.turmoil.certificates import Certificates

PORTS = range(15_000, 30_000)
"""Below those that the kernel gives to outgoing connections (32768 on Linux), so that a vendor that
was gone finds its port free when it comes back."""
SLOW_S = 40.0
"""Beyond every time limit of the bot: 8 s for a post, 20 s for all that one source is asked."""
MAX_REQUEST = 16 * 1024 * 1024
HTML = b"<!doctype html><html><body><h1>We'll be right back</h1></body></html>"
TYPES = (
    b"[[], 7]",
    b"7",
    b'"text"',
    b'{"status":7,"data":"x","incident":[],"notes":{"a":1},"note":null,"alerts":7}',
)
"""JSON of other types than were asked for; none says that anything was done."""


class Sickness(StrEnum):
    """In which way a vendor is not well."""

    SLOW = "slow"
    TRUNCATED = "truncated"
    TYPES = "wrong types"
    HTML = "HTML"
    LIMITED = "rate-limited"
    GONE = "gone"
    TLS = "TLS broken"


class Lines:
    """The thread on which all lines run."""

    def __init__(self, certificates: Certificates, seed: str) -> None:
        self.certificates = certificates
        self.dice = random.Random(f"{seed} lines")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lines", daemon=True)
        self._thread.start()
        self._all: list[Line] = []

    def line(self, name: str, upstream: str) -> Line:
        """A line to the vendor that listens at the address `upstream`."""
        line = Line(name, urlsplit(upstream).port or 80, self)
        self.run(line.listen())
        self._all.append(line)
        return line

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """On the lines' thread; wait for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def close(self) -> None:
        """End them all."""
        for line in self._all:
            self.run(line.hang_up())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()


class Line:
    """One vendor as the bot reaches it; `made_sick` counts requests that met each sickness."""

    def __init__(self, name: str, upstream: int, lines: Lines) -> None:
        self.name = name
        self.port = free_port(lines.dice)
        self.url = f"https://127.0.0.1:{self.port}"
        self.sickness: Sickness | None = None
        self.made_sick: Counter[Sickness] = Counter()
        self._upstream = upstream
        self._lines = lines
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()

    def fall_sick(self, sickness: Sickness | None) -> None:
        """From now on; None is well. What is under way is cut."""
        self._lines.run(self._change(sickness))

    async def _change(self, sickness: Sickness | None) -> None:
        await self.hang_up()
        self.sickness = sickness
        if sickness is not Sickness.GONE:
            await self.listen()

    async def listen(self) -> None:
        """Open the port."""
        certificates = self._lines.certificates
        context = certificates.expired if self.sickness is Sickness.TLS else certificates.valid
        for _ in range(100):
            with contextlib.suppress(OSError):
                self._server = await asyncio.start_server(
                    self._talk, "127.0.0.1", self.port, ssl=context, limit=MAX_REQUEST
                )
                return
            await asyncio.sleep(0.1)
        raise RuntimeError(f"port {self.port} was taken while {self.name} was gone")

    async def hang_up(self) -> None:
        """Close the port, and cut whatever is under way."""
        if self._server is not None:
            self._server.close()
            self._server = None
        talks = list(self._talks)
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talks.add(task)
        try:
            with contextlib.suppress(
                OSError, EOFError, asyncio.LimitOverrunError, asyncio.CancelledError
            ):
                request = await _request(reader)
                answer = await self._answer(request, reader)
                writer.write(answer)
                await writer.drain()
        finally:
            self._talks.discard(task)
            with contextlib.suppress(OSError):
                writer.close()

    async def _answer(self, request: bytes, reader: asyncio.StreamReader) -> bytes:
        sickness, dice = self.sickness, self._lines.dice
        if sickness is None:
            return await self._ask(request)
        self.made_sick[sickness] += 1
        if (
            sickness is Sickness.SLOW and dice.random() < 0.5
        ):  # it does what it was asked, and does not say so
            answer = await self._ask(request)
            await asyncio.sleep(SLOW_S)
            return answer
        if sickness is Sickness.SLOW:
            await asyncio.sleep(SLOW_S)
            return b"" if reader.at_eof() else await self._ask(request)
        if sickness is Sickness.TRUNCATED:
            head, _, body = (await self._ask(request)).partition(b"\r\n\r\n")
            return head + b"\r\n\r\n" + body[: len(body) // 2]
        if sickness is Sickness.TYPES:
            return _said(200, "application/json", dice.choice(TYPES))
        if sickness is Sickness.HTML:
            return _said(200, "text/html", HTML)
        return _said(
            429, "application/json", b'{"ok":false,"error":"ratelimited"}', "Retry-After: 2\r\n"
        )

    async def _ask(self, request: bytes) -> bytes:
        """The vendor's whole answer. Once the vendor has the request it does it, whoever hangs
        up."""
        return await asyncio.shield(self._asked(request))

    async def _asked(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        try:
            writer.write(request)
            await writer.drain()
            return await reader.read(-1)
        finally:
            writer.close()


async def _request(reader: asyncio.StreamReader) -> bytes:
    """One whole request, for a vendor that is to close the connection after its answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")[:-2]
    fields = [
        line
        for line in lines[1:]
        if not line.lower().startswith(("connection:", "x-forwarded-proto:"))
    ]
    named = {
        name.strip().lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)
    }
    if "chunked" in named.get("transfer-encoding", "").lower():
        body = await reader.readuntil(b"0\r\n\r\n")
    else:
        body = await reader.readexactly(int(named.get("content-length", "0")))
    start = "\r\n".join([lines[0], *fields, "Connection: close", "X-Forwarded-Proto: https"])
    return start.encode("latin-1") + b"\r\n\r\n" + body


def _said(status: int, kind: str, body: bytes, more: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status} x\r\nContent-Type: {kind}\r\nContent-Length: "
        f"{len(body)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode() + body


def free_port(dice: random.Random) -> int:
    """One that nothing else takes while nobody listens on it."""
    while True:
        port = dice.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
