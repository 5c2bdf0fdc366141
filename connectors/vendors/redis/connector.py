"""Redis and Valkey: memory against its limit, evictions, clients, slow commands, replication.

A snapshot of now; the slow log and the start of the server reach back.

The connection speaks the part of Redis' protocol (RESP2) needed to read statistics, and only listed
commands are sent. Source: "Redis serialization protocol specification" (redis.io). A client library
would bring every command that writes.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.contract.base import Check, Missing
from faultline.connectors.shared.databases.database_facts import (
    StatementCounts,
    slower_facts,
    slowest_details,
)
from faultline.connectors.shared.databases.database_server import DatabaseConnector, ServerSnapshot
from faultline.connectors.shared.databases.driver_session import DriverSession
from faultline.connectors.shared.rows.collection_builder import full_window
from faultline.connectors.shared.settings.connector_settings import DatabaseAddress, Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.redis import RedisSettings, facts
from faultline.connectors.vendors.redis.facts import Reply, fields_of

VENDOR = "redis"
LIMITS = Limits(deadline_s=20, max_bytes=4 * 1024 * 1024, requests_per_s=20, concurrency=2)
SECTIONS = ("server", "clients", "memory", "persistence", "replication", "stats")
SLOW_ENTRIES = 128
"""All that Redis keeps unless set otherwise (`slowlog-max-len`)."""
READING = frozenset(
    {("INFO",), ("SLOWLOG", "GET"), ("CLIENT", "LIST"), ("ACL", "WHOAMI"), ("ACL", "GETUSER")}
)
"""Every command that is sent, beside AUTH."""
MOST_ENTRIES = 10_000
MOST_CLIENTS = 5000
"""About 300 bytes each. Redis serves nobody else while it lists them."""
DEEPEST = 8
LONGEST_CLOSE_S = 1.0


class ErrorReply(Exception):
    """A reply that is an error."""


class RefusedCommand(ConnectorError):
    """The server answered with an error."""


class RedisSession(DriverSession):
    """One collection's commands, one after the other."""

    vendor = VENDOR
    errors = (ErrorReply, OSError, EOFError, ValueError, asyncio.LimitOverrunError)

    def __init__(self, server: DatabaseAddress, limits: Limits) -> None:
        super().__init__(server.address, limits)
        self._server = server
        self._bytes = ByteBudget("size", limits.max_bytes)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def connect(self) -> None:
        """Connect and log in. Raises ConnectorError, BudgetExceeded."""
        server = self._server
        async with self.permitted("connect"):
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

    async def _send(self, *words: str) -> Reply:
        assert self._streams is not None, "connect comes first"
        reader, writer = self._streams
        async with self.permitted(words[0]):
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

    def problem(self, call: str, error: Exception) -> ConnectorError:
        if isinstance(error, OSError | EOFError):
            text = short(str(error)) or type(error).__name__
            return ConnectorError(VENDOR, call, text, retryable=True)
        if isinstance(error, ErrorReply):
            return RefusedCommand(VENDOR, call, str(error))
        # After a reply that cannot be read, nobody knows where the next begins: drop the
        # connection.
        return ConnectorError(VENDOR, call, "unexpected response", retryable=True)


class RedisConnector(DatabaseConnector[RedisSettings, RedisSession]):
    """One server."""

    name = VENDOR
    object_kind = "Cache"
    default_limits = LIMITS

    def opened(self) -> RedisSession:
        section = self.section
        return RedisSession(section.address(self.host, section.port), self.limits)

    async def read(self, session: RedisSession, snapshot: ServerSnapshot) -> None:
        start = full_window(snapshot.scope).start
        first = await self._info(session, snapshot, *SECTIONS)
        counts = await self._counts(session, snapshot)
        if self.section.sample_s:
            await asyncio.sleep(self.section.sample_s)
            last = await self._info(session, snapshot, *SECTIONS)
            later = await self._counts(session, snapshot)
            slower = slower_facts(counts, later)
            snapshot.add(session.label("INFO commandstats"), slower, slowest_details(later))
        else:
            # Without a second reading nothing was counted in between.
            last = first
        evicted, rejected = (
            facts.number_of(last, name) - facts.number_of(first, name)
            for name in ("evicted_keys", "rejected_connections")
        )
        server_facts = facts.server_facts(last, snapshot.window_s)
        server_facts += facts.memory_facts(last, evicted, self.section.sample_s)
        server_facts += facts.rejected_facts(rejected)
        snapshot.add(session.label("INFO"), server_facts)
        slow = await self._ask(session, snapshot, "SLOWLOG", "GET", str(SLOW_ENTRIES))
        commands = list(facts.slow_commands(slow))
        slow_facts = facts.slow_facts(commands, start.timestamp(), snapshot.at.timestamp())
        snapshot.add(session.label(f"SLOWLOG GET {SLOW_ENTRIES}"), slow_facts)
        await self._callers(session, snapshot, facts.number_of(last, "connected_clients"))

    async def _callers(
        self, session: RedisSession, snapshot: ServerSnapshot, client_count: float
    ) -> None:
        query = session.label("CLIENT LIST")
        if client_count > MOST_CLIENTS:
            reason = f"not asked of a server with more than {MOST_CLIENTS} clients"
            snapshot.builder.missing.append(Missing("topology", query, reason))
            return
        # Without the right nothing but who calls is unknown, which `check` says.
        with suppress(RefusedCommand):
            reply = await session.ask("CLIENT", "LIST")
            self.called_by(snapshot, query, facts.clients_of(reply))

    async def examined(self, session: RedisSession) -> Check:
        server = fields_of(await session.ask("INFO", "server"))
        rights = await self._rights(session)
        # Valkey also has a redis_version, for clients of Redis.
        version = server.get("valkey_version") or server.get("redis_version", "")
        line = f"Redis {short(version, 20)} at {session.address}: INFO can be read"
        try:
            await session.ask("CLIENT", "LIST")
        except RefusedCommand:
            line += "; who calls it is not shown to this user: +client|list"
        line += "; only INFO, SLOWLOG GET and CLIENT LIST are sent"
        return Check(self.name, True, f"{line}; {rights}")

    async def _rights(self, session: RedisSession) -> str:
        """The server shows the rights of users to administrators alone."""
        try:
            user = await session.ask("ACL", "WHOAMI")
            shown = await session.ask("ACL", "GETUSER", str(user))
        except RefusedCommand:
            return "whether this user may also write is not shown to it"
        words = [str(word) for word in shown] if isinstance(shown, list) else []
        # ACL GETUSER answers names and values in turn.
        commands = dict(zip(words[::2], words[1::2], strict=False)).get("commands", "")
        if "+@all" in commands.split() or "+@write" in commands.split():
            return f"warning: the user {short(str(user), 40)} can also write: see the page's ACL"
        return "the user has no +@all and no +@write"

    async def _info(
        self, session: RedisSession, snapshot: ServerSnapshot, *sections: str
    ) -> dict[str, str]:
        fields: dict[str, str] = {}
        for section in sections:
            fields |= fields_of(await self._ask(session, snapshot, "INFO", section))
        return fields

    async def _counts(
        self, session: RedisSession, snapshot: ServerSnapshot
    ) -> list[StatementCounts]:
        return facts.command_counts(await self._info(session, snapshot, "commandstats"))

    async def _ask(self, session: RedisSession, snapshot: ServerSnapshot, *words: str) -> Reply:
        try:
            return await session.ask(*words)
        except RefusedCommand as error:
            snapshot.lacks(session.label(" ".join(words)), str(error))
            return None


def build(section: RedisSettings, shared: SharedSettings) -> RedisConnector | None:
    """The configured connector, or None without a host."""
    return None if section.host is None else RedisConnector(section, section.host, shared)
