"""The line between the bot and a vendor: TLS on loopback, one request per connection, well or sick
in one way."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from benchmarks.turmoil.certificates import Certificates
from benchmarks.turmoil.networks import LOOPBACK
from faultline.loopback.bot_process import PORTS, is_unused

SLOW_S = 40.0
"""Beyond every time limit of the bot: 8 s for a post, 20 s for all that one source is asked."""
LATE_S = (5.0, 25.0)
"""A request is applied so long after its sender gave it up."""
ABANDONED_S = 15.0
"""By then a sender has given up that no longer can say so."""
POSTS = (b"chat.postMessage", b"/notes")
"""Calls that post something, in the first line of a request."""
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
    LATE = "applies late"
    SILENT = "silent"
    STUCK = "stops reading"


BLACK_HOLES = (Sickness.SILENT, Sickness.STUCK)
"""Nothing is cut: connections that were open get no answer, and new ones none either."""
USUAL_SICKNESSES = tuple(sickness for sickness in Sickness if sickness not in BLACK_HOLES)


@dataclass(frozen=True)
class Posted:
    """One request that posts, as it came in whole. `at` is of the monotonic clock."""

    at: float
    sender: str
    """Its address."""
    body: bytes


class Lines:
    """The thread on which all lines run, and the address where they listen."""

    def __init__(self, certificates: Certificates, seed: str, address: str = LOOPBACK) -> None:
        self.certificates = certificates
        self.address = address
        self.late = 0
        """Requests that are still to be applied."""
        self.dice = random.Random(f"{seed} lines")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lines", daemon=True)
        self._thread.start()
        self._all: list[Line] = []
        self._waiting: set[asyncio.Task[None] | None] = set()

    def line(self, name: str, upstream: str) -> Line:
        """A line to the vendor that listens at the address `upstream`."""
        line = Line(name, urlsplit(upstream).port or 80, self)
        self.run(line.listen())
        self._all.append(line)
        return line

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """On the lines' thread; wait for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def soon(self, work: Coroutine[Any, Any, None]) -> None:
        """On the lines' thread, without waiting for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def later(self, work: Callable[[], Coroutine[Any, Any, object]], seconds: float) -> None:
        """Do the work after so long, whatever happens meanwhile; from the lines' thread."""

        async def wait() -> None:
            await asyncio.sleep(seconds)
            with contextlib.suppress(OSError):
                await work()
            self.late -= 1
            self._waiting.discard(asyncio.current_task())

        self.late += 1
        self._waiting.add(self._loop.create_task(wait()))

    def unused_port(self) -> int:
        """A port that nobody listens on, the same of the same seed."""
        while not is_unused(port := self.dice.choice(PORTS)):
            pass
        return port

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
        self.port = lines.unused_port()
        self.url = f"https://{lines.address}:{self.port}"
        self.posted: list[Posted] = []
        self.in_use = threading.Lock()
        """Of whoever makes it sick, so that two do not heal each other's sickness."""
        self.sickness: Sickness | None = None
        self.made_sick: Counter[Sickness] = Counter()
        self._upstream = upstream
        self._lines = lines
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()

    def fall_sick(self, sickness: Sickness | None) -> None:
        """From now on; None is well. What is under way is cut, but by a black hole."""
        self._lines.run(self._change(sickness))

    async def _change(self, sickness: Sickness | None) -> None:
        if sickness in BLACK_HOLES:
            self._shut()
        else:
            await self.hang_up()
        self.sickness = sickness
        if sickness is not Sickness.GONE:
            await self.listen()

    async def listen(self) -> None:
        """Open the port."""
        certificates = self._lines.certificates
        context = certificates.expired if self.sickness is Sickness.TLS else certificates.valid
        tls = None if self.sickness is Sickness.SILENT else context
        for _ in range(100):
            with contextlib.suppress(OSError):
                self._server = await asyncio.start_server(
                    self._talk, self._lines.address, self.port, ssl=tls, limit=MAX_REQUEST
                )
                return
            await asyncio.sleep(0.1)
        raise RuntimeError(f"port {self.port} was taken while {self.name} was gone")

    async def hang_up(self) -> None:
        """Close the port, and cut whatever is under way."""
        self._shut()
        talks = list(self._talks)
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)

    def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talks.add(task)
        try:
            with contextlib.suppress(
                OSError, EOFError, asyncio.LimitOverrunError, asyncio.CancelledError
            ):
                if self.sickness in BLACK_HOLES:
                    await self._swallow(reader, writer)
                    return
                request = await _request(reader)
                self._note(request, writer)
                answer = await self._answer(request, reader)
                if self.sickness in BLACK_HOLES:
                    await self._swallow(reader, writer)
                    return
                writer.write(answer)
                await writer.drain()
        finally:
            self._talks.discard(task)
            with contextlib.suppress(OSError):
                writer.close()

    async def _swallow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the other side gives up, or until all is well and the connection is cut."""
        self.made_sick[self.sickness or Sickness.SILENT] += 1
        if self.sickness is Sickness.STUCK:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.Event().wait()
        while await reader.read(MAX_REQUEST):
            pass

    def _note(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        start, _, _ = request.partition(b"\r\n")
        if start.startswith(b"POST") and any(call in start for call in POSTS):
            sender = writer.get_extra_info("peername")[0]
            _, _, body = request.partition(b"\r\n\r\n")
            self.posted.append(Posted(time.monotonic(), sender, body))

    async def _apply_late(self, request: bytes, reader: asyncio.StreamReader) -> None:
        try:
            await asyncio.wait_for(reader.read(1), ABANDONED_S)
        finally:
            # Also where this is cut because all is well again.
            self._lines.later(lambda: self._forward(request), self._lines.dice.uniform(*LATE_S))

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
        if sickness is Sickness.LATE:
            with contextlib.suppress(TimeoutError):
                await self._apply_late(request, reader)
            return b""
        if sickness is Sickness.SLOW:
            await asyncio.sleep(SLOW_S)
            return b"" if reader.at_eof() else await self._ask(request)
        if sickness is Sickness.TRUNCATED:
            head, _, body = (await self._ask(request)).partition(b"\r\n\r\n")
            return head + b"\r\n\r\n" + body[: len(body) // 2]
        if sickness is Sickness.TYPES:
            return _http_response(200, "application/json", dice.choice(TYPES))
        if sickness is Sickness.HTML:
            return _http_response(200, "text/html", HTML)
        return _http_response(
            429, "application/json", b'{"ok":false,"error":"ratelimited"}', "Retry-After: 2\r\n"
        )

    async def _ask(self, request: bytes) -> bytes:
        """The vendor's whole answer. Once the vendor has the request it does it, whoever hangs
        up."""
        return await asyncio.shield(self._forward(request))

    async def _forward(self, request: bytes) -> bytes:
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


def _http_response(status: int, kind: str, body: bytes, more: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status} x\r\nContent-Type: {kind}\r\nContent-Length: "
        f"{len(body)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode() + body
