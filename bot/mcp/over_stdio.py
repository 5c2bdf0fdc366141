"""The server over standard input and output: one client, the program that started this one.

Nothing else may write to standard output, or the client reads nonsense. So the two descriptors are
taken out of the way before anything is loaded: what prints goes to standard error, and processes
that are forked later print there too.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from mcp.server.stdio import stdio_server

from faultline.bot.mcp.server import McpServer

LONGEST_MESSAGE = 4 * 2**20
"""Bytes of one message; the library takes as many over HTTP."""
STDIN, STDOUT, STDERR = 0, 1, 2


@dataclass(frozen=True)
class Wire:
    """The descriptors that the client is at the other end of."""

    incoming: int
    outgoing: int


@contextmanager
def taken_wire() -> Iterator[Wire]:
    """Standard input and output for the protocol alone. Until the end of the block, everybody else
    reads nothing from there and writes to standard error."""
    sys.stdout.flush()
    wire = Wire(os.dup(STDIN), os.dup(STDOUT))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STDIN)
    os.close(nothing)
    os.dup2(STDERR, STDOUT)
    try:
        yield wire
    finally:
        sys.stdout.flush()
        os.dup2(wire.incoming, STDIN)
        os.dup2(wire.outgoing, STDOUT)
        os.close(wire.incoming)
        os.close(wire.outgoing)


async def serve(server: McpServer, wire: Wire) -> None:
    """Answer until the client closes its end, or a signal says to stop."""
    serving = asyncio.ensure_future(_serve(server, wire))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, serving.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await serving
    finally:
        server.close()


async def _serve(server: McpServer, wire: Wire) -> None:
    built = server.built()
    outgoing = io.TextIOWrapper(os.fdopen(wire.outgoing, "wb", closefd=False), encoding="utf-8")
    async with (
        _incoming(wire.incoming) as incoming,
        stdio_server(incoming, anyio.wrap_file(outgoing)) as (read, write),
    ):
        await built.run(read, write, built.create_initialization_options())


@contextlib.asynccontextmanager
async def _incoming(descriptor: int) -> AsyncIterator[Any]:
    """The client's lines. Of a pipe they are read without a thread, which nothing could stop."""
    mode = os.fstat(descriptor).st_mode
    file = os.fdopen(descriptor, "rb", closefd=False)
    # asyncio has no transport for regular files, so a thread reads them.
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        yield anyio.wrap_file(io.TextIOWrapper(file, encoding="utf-8", errors="replace"))
        return
    reader = asyncio.StreamReader(limit=LONGEST_MESSAGE)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    try:
        yield _Lines(reader)
    finally:
        transport.close()


class _Lines:
    """Lines of a stream, as the library iterates over them."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
        try:
            line = await self._reader.readline()
        # The reader raises it where a line exceeds its limit.
        except ValueError:
            sys.stderr.write(f"faultline: a message is longer than {LONGEST_MESSAGE} bytes\n")
            raise StopAsyncIteration from None
        if not line:
            raise StopAsyncIteration
        return line.decode("utf-8", "replace")
