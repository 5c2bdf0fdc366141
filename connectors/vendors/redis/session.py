"""The part of Redis' protocol (RESP2) needed to read statistics. Only listed commands are sent.

Source: "Redis serialization protocol specification" (redis.io). A client library would bring every
command that writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import TypeAlias

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.databases.driver_calls import logged_in, permitted_call
from faultline.connectors.shared.settings.connector_settings import DatabaseAddress, Limits
from faultline.connectors.shared.transport.budgets import ByteBudget, Deadline
from faultline.connectors.shared.transport.rate_limiter import rate_limiter_of
from faultline.connectors.shared.vendor_text import short

VENDOR = "redis"
READING = frozenset({("INFO",), ("SLOWLOG", "GET"), ("ACL", "WHOAMI"), ("ACL", "GETUSER")})
"""Every command that is sent, beside AUTH."""
MOST_ENTRIES = 10_000
DEEPEST = 8
LONGEST_CLOSE_S = 1.0
Reply: TypeAlias = "str | int | list[Reply] | None"


class ErrorReply(Exception):
    """A reply that is an error."""


ERRORS = (ErrorReply, OSError, EOFError, ValueError, asyncio.LimitOverrunError)


class RefusedCommand(ConnectorError):
    """The server answered with an error."""


class RedisSession:
    """One collection's commands, one after the other."""

    def __init__(self, server: DatabaseAddress, limits: Limits, deadline: Deadline) -> None:
        self.server = server
        self.deadline = deadline
        self._limiter = rate_limiter_of(VENDOR, server.address, limits)
        self._bytes = ByteBudget("size", limits.max_bytes)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def connect(self) -> None:
        """Connect and log in. Raises ConnectorError, BudgetExceeded."""
        server = self.server
        async with self._asking("connect"):
            self._streams = await asyncio.open_connection(
                server.host, server.port, ssl=server.context()
            )
        if server.password is not None:
            name = (server.username,) if server.username else ()
            await self._send("AUTH", *name, server.password)

    async def close(self) -> None:
        """Close the connection."""
        if self._streams is None:
            return
        writer = self._streams[1]
        writer.close()
        with suppress(OSError, TimeoutError):
            # A server that does not answer must not delay the investigation.
            async with asyncio.timeout(LONGEST_CLOSE_S):
                await writer.wait_closed()

    async def ask(self, *words: str) -> Reply:
        """The reply to a command that reads. Raises ConnectorError, BudgetExceeded."""
        if words[:1] not in READING and words[:2] not in READING:
            raise ConnectorError(VENDOR, words[0], "a connector sends reading commands only")
        return await self._send(*words)

    async def info(self, section: str) -> dict[str, str]:
        """A section of INFO, field by field."""
        return dict(_fields(await self.ask("INFO", section)))

    async def _send(self, *words: str) -> Reply:
        assert self._streams is not None, "connect comes first"
        reader, writer = self._streams
        async with self._asking(words[0]):
            parts = [f"*{len(words)}\r\n".encode()]
            for word in words:
                raw = word.encode()
                parts.append(b"$%d\r\n%s\r\n" % (len(raw), raw))
            writer.write(b"".join(parts))
            await writer.drain()
            return await self._reply(reader)

    async def _reply(self, reader: asyncio.StreamReader, depth: int = 0) -> Reply:
        line = (await reader.readuntil(b"\r\n"))[:-2]
        self._bytes.take(len(line) + 2)
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode(errors="replace")
        if kind == b"-":
            raise ErrorReply(short(rest.decode(errors="replace"), 120))
        count = int(rest)
        if kind == b":":
            return count
        # A length of -1 is null.
        if count < 0:
            return None
        if kind == b"$":
            # Before reading: a hostile length must not fill the memory.
            self._bytes.take(count + 2)
            return (await reader.readexactly(count + 2))[:-2].decode(errors="replace")
        if kind != b"*" or count > MOST_ENTRIES or depth >= DEEPEST:
            raise ValueError("not a reply")
        return [await self._reply(reader, depth + 1) for _ in range(count)]

    def _asking(self, call: str) -> AbstractAsyncContextManager[None]:
        return permitted_call(self._limiter, self.deadline, ERRORS, partial(_problem, call))


def _problem(call: str, error: Exception) -> tuple[ConnectorError, bool]:
    if isinstance(error, OSError | EOFError):
        name = short(str(error)) or type(error).__name__
        return ConnectorError(VENDOR, call, name, retryable=True), True
    if isinstance(error, ErrorReply):
        return RefusedCommand(VENDOR, call, str(error)), False
    # After a reply that cannot be read, nobody knows where the next begins: drop the connection.
    return ConnectorError(VENDOR, call, "unexpected response"), True


def _fields(reply: Reply) -> Iterator[tuple[str, str]]:
    for line in (reply if isinstance(reply, str) else "").splitlines():
        name, colon, value = line.partition(":")
        if colon and not line.startswith("#"):
            yield name, value


def opened(server: DatabaseAddress, limits: Limits) -> AbstractAsyncContextManager[RedisSession]:
    """A session that is logged in. Raises ConnectorError, BudgetExceeded."""
    return logged_in(RedisSession(server, limits, Deadline.within(limits)))
