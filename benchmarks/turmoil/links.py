"""The link between one host and the database: a proxy that passes bytes on, or lets the server
vanish without a word."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from sqlalchemy.engine import make_url

from benchmarks.turmoil.lines import Lines

PIECE = 65_536
IN_TRANSACTION = b"Z\x00\x00\x00\x05T"
"""ReadyForQuery inside a transaction block
(https://www.postgresql.org/docs/current/protocol-message-formats.html)."""
KEEPALIVES = (
    (socket.TCP_KEEPIDLE, 5),
    (socket.TCP_KEEPINTVL, 2),
    (socket.TCP_KEEPCNT, 3),
    (socket.TCP_USER_TIMEOUT, 10_000),
)
"""As the bot asks the server for (bot/store/connections.py), which cannot keep to it on a socket
file."""
LINGER_S = (11.0, 60.0)
"""The server keeps the session of a client that is gone for as long."""


class Silence(StrEnum):
    """How the other end vanishes."""

    SWALLOWS = "acknowledges and stays silent"
    STOPS_READING = "stops reading"


class DatabaseLink:
    """One host's way to a PostgreSQL server's socket file. `url` leads through it."""

    def __init__(self, host: str, url: str, lines: Lines) -> None:
        self.host = host
        self.port = lines.unused_port()
        self.on_transaction: Callable[[], None] | None = None
        """Called once, on the lines' thread, when a transaction of this host has begun."""
        parsed = make_url(url)
        self._server = str(Path(str(parsed.query["host"])) / f".s.PGSQL.{parsed.port or 5432}")
        through = parsed.set(host=lines.address, port=self.port).difference_update_query(["host"])
        self.url = through.render_as_string(hide_password=False)
        self._lines = lines
        self._silence: Silence | None = None
        self._open: set[_Session] = set()
        self._listener: asyncio.Server | None = None
        lines.run(self._listen())

    def fall_silent(self, silence: Silence) -> None:
        """From now on nothing passes, on open connections and on new ones."""
        self._lines.run(self._fall_silent(silence))

    def fall_silent_soon(self, silence: Silence) -> None:
        """As `fall_silent`, from the lines' thread."""
        self._lines.soon(self._fall_silent(silence))

    def pass_again(self) -> None:
        """New connections pass. Those that were open stay lost, as after a failover."""
        self._silence = None

    def close(self) -> None:
        """End everything."""
        self._lines.run(self._close())

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._carry, self._lines.address, self.port)

    async def _close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for session in list(self._open):
            session.end()

    async def _fall_silent(self, silence: Silence) -> None:
        self._silence = silence
        for session in self._open:
            session.lose(silence, self._lines.dice.uniform(*LINGER_S))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = _Session(self, reader, writer)
        self._open.add(session)
        try:
            if self._silence is not None:
                session.lose(self._silence, LINGER_S[1])
            # A server that was stopped meanwhile has no socket file.
            with suppress(OSError):
                await session.carry(self._server)
        finally:
            session.end()
            self._open.discard(session)

    def began(self) -> None:
        """A transaction of this host has begun."""
        callback, self.on_transaction = self.on_transaction, None
        if callback is not None:
            callback()


class _Session:
    """One connection through a link."""

    def __init__(
        self, link: DatabaseLink, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._link = link
        self._reader, self._writer = reader, writer
        self._theirs: asyncio.StreamWriter | None = None
        self._lost: Silence | None = None
        ours: socket.socket = writer.get_extra_info("socket")
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEPALIVES:
            ours.setsockopt(socket.IPPROTO_TCP, option, value)

    def lose(self, silence: Silence, linger_s: float) -> None:
        """Pass nothing any more; the server notices that after `linger_s` seconds."""
        self._lost = self._lost or silence
        if silence is Silence.STOPS_READING:
            with suppress(RuntimeError, AttributeError):
                self._writer.transport.pause_reading()  # type: ignore[attr-defined]
        asyncio.get_running_loop().call_later(linger_s, self.end)

    async def carry(self, server: str) -> None:
        """Until an end closes."""
        if self._lost is not None:
            await self._pump(self._reader, None)
            return
        reader, self._theirs = await asyncio.open_unix_connection(server)
        pumps = [
            asyncio.create_task(self._pump(self._reader, self._theirs)),
            asyncio.create_task(self._pump(reader, self._writer)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        if self._lost is not None:
            # Neither end learns that the other is gone, until the linger is over.
            await asyncio.wait(pumps)
        for pump in pumps:
            pump.cancel()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter | None) -> None:
        from_server = sink is self._writer
        with suppress(OSError):
            while piece := await source.read(PIECE):
                if from_server and piece.endswith(IN_TRANSACTION):
                    self._link.began()
                if self._lost is None and sink is not None:
                    sink.write(piece)
                    await sink.drain()

    def end(self) -> None:
        """Close both ends."""
        for writer in (self._writer, self._theirs):
            if writer is not None:
                with suppress(OSError, RuntimeError):
                    writer.close()
