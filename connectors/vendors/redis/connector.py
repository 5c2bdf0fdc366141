"""Redis and Valkey: memory against its limit, evictions, clients, slow commands, replication.

A snapshot of now; the slow log and the start of the server reach back.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import EvidenceKind
from faultline.connectors.shared.contract.base import Check, Collected, Request
from faultline.connectors.shared.databases.database_facts import (
    StatementCounts,
    slower_facts,
    slowest_details,
)
from faultline.connectors.shared.databases.database_server import ServerSnapshot
from faultline.connectors.shared.rows.collection_builder import full_window
from faultline.connectors.shared.settings.connector_settings import DatabaseAddress, Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.redis import RedisSettings, facts
from faultline.connectors.vendors.redis.session import RedisSession, RefusedCommand, Reply, opened

LIMITS = Limits(deadline_s=20, max_bytes=4 * 1024 * 1024, requests_per_s=20, concurrency=2)
SECTIONS = ("server", "clients", "memory", "persistence", "replication", "stats")
SLOW_ENTRIES = 128
"""All that Redis keeps unless set otherwise (`slowlog-max-len`)."""


def build(redis_settings: RedisSettings, settings: SharedSettings) -> RedisConnector | None:
    """The configured connector, or None without a host."""
    if redis_settings.host is None:
        return None
    server = redis_settings.address(redis_settings.host, redis_settings.port)
    service = redis_settings.of_service(redis_settings.host)
    return RedisConnector(
        server, service, sample_s=redis_settings.sample_s, limits=redis_settings.limits(LIMITS)
    )


class RedisConnector:
    """One server. Its facts are about `service`."""

    name = "redis"
    kinds: tuple[EvidenceKind, ...] = ("states",)

    def __init__(
        self,
        server: DatabaseAddress,
        service: str,
        *,
        sample_s: float = 5.0,
        limits: Limits = LIMITS,
    ) -> None:
        self._server = server
        self._service = service
        self._sample_s = sample_s
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """The snapshot. A command that is refused becomes a gap, the others stand."""
        snapshot = ServerSnapshot("Cache", self._service, datetime.now(UTC), request.scope)
        if snapshot.comes_too_late():
            return snapshot.builder.collected()
        start = full_window(request.scope).start
        async with opened(self._server, self.limits) as session:
            first, counts = (
                await self._info(session, snapshot),
                await self._counts(session, snapshot),
            )
            if self._sample_s:
                await asyncio.sleep(self._sample_s)
                last, later = (
                    await self._info(session, snapshot),
                    await self._counts(session, snapshot),
                )
                slower = slower_facts(counts, later)
                snapshot.add(self._label("INFO commandstats"), slower, slowest_details(later))
            else:
                # Without a second reading nothing was counted in between.
                last = first
            evicted, rejected = (
                facts.number_of(last, name) - facts.number_of(first, name)
                for name in ("evicted_keys", "rejected_connections")
            )
            server_facts = facts.server_facts(last, (snapshot.at - start).total_seconds())
            server_facts += facts.memory_facts(last, evicted, self._sample_s)
            server_facts += facts.rejected_facts(rejected)
            snapshot.add(self._label("INFO"), server_facts)
            slow = await self._ask(session, snapshot, "SLOWLOG", "GET", str(SLOW_ENTRIES))
            commands = list(facts.slow_commands(slow))
            slow_facts = facts.slow_facts(commands, start.timestamp(), snapshot.at.timestamp())
            snapshot.add(self._label(f"SLOWLOG GET {SLOW_ENTRIES}"), slow_facts)
        return snapshot.builder.collected()

    async def check(self) -> Check:
        """Reachable, and may this user write?"""
        try:
            async with opened(self._server, self.limits) as session:
                server = await session.info("server")
                rights = await self._rights(session)
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        # Valkey also has a redis_version, for clients of Redis.
        version = server.get("valkey_version") or server.get("redis_version", "")
        line = f"Redis {short(version, 20)} at {self._server.address}: INFO can be read"
        return Check(self.name, True, f"{line}; only INFO and SLOWLOG GET are sent; {rights}")

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

    async def _info(self, session: RedisSession, snapshot: ServerSnapshot) -> dict[str, str]:
        fields: dict[str, str] = {}
        for section in SECTIONS:
            try:
                fields |= await session.info(section)
            except RefusedCommand as error:
                snapshot.lacks(self._label(f"INFO {section}"), str(error))
        return fields

    async def _counts(
        self, session: RedisSession, snapshot: ServerSnapshot
    ) -> list[StatementCounts]:
        try:
            return facts.command_counts(await session.info("commandstats"))
        except RefusedCommand as error:
            snapshot.lacks(self._label("INFO commandstats"), str(error))
            return []

    async def _ask(self, session: RedisSession, snapshot: ServerSnapshot, *words: str) -> Reply:
        try:
            return await session.ask(*words)
        except RefusedCommand as error:
            snapshot.lacks(self._label(" ".join(words)), str(error))
            return None

    def _label(self, command: str) -> str:
        return f"{self._server.address}: {command}"
