"""MySQL's and MariaDB's own state: chains of locks, open transactions, connections, statements,
replication, deadlocks.

A snapshot of now, with what the server itself knows of the time before: since when a session waits,
a transaction is open or the server runs. Speaks to MySQL 8.0.22, MariaDB 10.5 and later.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, TypeVar

from faultline.analysis.errors import FaultlineError, SettingsError
from faultline.analysis.vocabulary import EvidenceKind
from faultline.connectors.shared.contract.base import Check, Collected, Request
from faultline.connectors.shared.databases.database_facts import (
    StatementCounts,
    deadlock_facts,
    lock_facts,
    open_facts,
    slower_facts,
    slowest_details,
)
from faultline.connectors.shared.databases.database_server import ServerSnapshot
from faultline.connectors.shared.settings.connector_settings import DatabaseAddress, Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.vendors.mysql import MysqlSettings, facts, queries
from faultline.connectors.vendors.mysql.session import MysqlSession, opened

LIMITS = Limits(deadline_s=30, max_bytes=16 * 1024 * 1024, requests_per_s=20, concurrency=2)
Row = TypeVar("Row")


def build(mysql_settings: MysqlSettings, settings: SharedSettings) -> MysqlConnector | None:
    """The configured connector, or None without a host. Raises SettingsError."""
    if mysql_settings.host is None:
        return None
    if mysql_settings.username is None:
        raise SettingsError("mysql.username", "must name a user that only reads statistics")
    return MysqlConnector(
        mysql_settings.address(mysql_settings.host, mysql_settings.port),
        mysql_settings.of_service(mysql_settings.host),
        sample_s=mysql_settings.sample_s,
        statement_s=mysql_settings.statement_s,
        limits=mysql_settings.limits(LIMITS),
    )


class MysqlConnector:
    """One server. Its facts are about `service`."""

    name = "mysql"
    kinds: tuple[EvidenceKind, ...] = ("states",)

    def __init__(
        self,
        server: DatabaseAddress,
        service: str,
        *,
        sample_s: float = 5.0,
        statement_s: float = 5.0,
        limits: Limits = LIMITS,
    ) -> None:
        self._server = server
        self._service = service
        self._sample_s = sample_s
        self._statement_s = statement_s
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """The snapshot. A query that fails becomes a gap, the others stand."""
        snapshot = ServerSnapshot("Database", self._service, datetime.now(UTC), request.scope)
        if snapshot.comes_too_late():
            return snapshot.builder.collected()
        async with opened(self._server, self.limits, self._statement_s) as session:
            reading = _MysqlReading(session, snapshot)
            await reading.sessions()
            settings = facts.named(await reading.rows(queries.SETTINGS, facts.NamedValue) or ())
            replicates = await reading.replication()
            first = await reading.overview(settings, replicates)
            await self._sampled(reading, settings, first)
        return snapshot.builder.collected()

    async def check(self) -> Check:
        """Reachable, and may this user read everything and write nothing?"""
        try:
            async with opened(self._server, self.limits, self._statement_s) as session:
                rows = await session.rows("grants", queries.GRANTS, type=dict[str, Any])
                product = session.product
                named = await session.rows("settings", queries.SETTINGS, type=facts.NamedValue)
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        grants = [str(text) for row in rows for text in row.values()]
        line = f"{product} at {self._server.address} can be read"
        unread = []
        if not any("PROCESS" in grant or "ALL PRIVILEGES" in grant for grant in grants):
            unread.append("other users' sessions")
            line += "; GRANT PROCESS to this user for the sessions of others"
        if facts.named(named).get("performance_schema") != "ON":
            unread.append("statements")
            line += "; performance_schema is off, so that statements are not counted"
        line += f"; each query is a read-only transaction of at most {self._statement_s:g} s"
        rights = facts.writing(grants)
        if rights:
            line += f"; warning: this user can also write ({', '.join(rights[:8])})"
        return Check(self.name, True, line, tuple(unread))

    async def _sampled(
        self, reading: _MysqlReading, settings: dict[str, str], first: dict[str, str]
    ) -> None:
        """Two readings of the counters; the second tells what happened between them."""
        counts_statements = settings.get("performance_schema") == "ON"
        # Without settings their query has failed, which is a gap already.
        if settings and not counts_statements:
            reading.snapshot.lacks("statements", "performance_schema is off")
        if not self._sample_s:
            return
        before = await reading.counts() if counts_statements else []
        deadlocks = await reading.rows(queries.DEADLOCKS, facts.CountRow)
        await asyncio.sleep(self._sample_s)
        after = await reading.counts() if counts_statements else []
        if before and after:
            slower = slower_facts(before, after)
            reading.snapshot.add(reading.label(queries.STATEMENTS), slower, slowest_details(after))
        more = await reading.rows(queries.DEADLOCKS, facts.CountRow) if deadlocks else None
        if deadlocks and more:
            new_deadlocks = deadlock_facts(deadlocks[0].count, more[0].count)
            reading.snapshot.add(reading.label(queries.DEADLOCKS), new_deadlocks)
        last = facts.named(await reading.rows(queries.COUNTERS, facts.NamedValue) or ())
        if rejected := facts.rejected_facts(first, last):
            reading.snapshot.add(reading.label(queries.COUNTERS), rejected)


class _MysqlReading:
    """Queries of one session, whose failures are gaps of the snapshot."""

    def __init__(self, session: MysqlSession, snapshot: ServerSnapshot) -> None:
        self._session = session
        self.snapshot = snapshot

    def label(self, text: str) -> str:
        """The query as evidence names it: where it was asked, and on one line."""
        return f"{self._session.server.address}: {' '.join(text.split())}"

    async def rows(self, text: str, type: type[Row]) -> list[Row] | None:
        """None where it failed, which is a gap then."""
        try:
            # What is asked, in a few words: the table, or the statement itself.
            words = text.split()
            if words[0] == "SHOW":
                name_of = " ".join(words[:3])
            else:
                name_of = words[words.index("FROM") + 1] if "FROM" in words else words[0]
            return await self._session.rows(name_of, text, type=type)
        except FaultlineError as error:
            self.snapshot.lacks(self.label(text), str(error))
            return None

    async def sessions(self) -> None:
        """Who waits for whom, and what stays open."""
        is_mariadb = self._session.is_mariadb
        text = queries.SESSIONS_OF_MARIADB if is_mariadb else queries.SESSIONS
        rows = await self.rows(text, facts.SessionRow)
        # MariaDB has `innodb_lock_waits` where MySQL 8 has `data_lock_waits`.
        locked = queries.LOCKS_OF_MARIADB if is_mariadb else queries.LOCKS
        locks = await self.rows(locked, facts.LockRow)
        if rows is not None:
            sessions = facts.sessions_of(rows, locks or ())
            session_facts = [*lock_facts(sessions), *open_facts(sessions)]
            self.snapshot.add(self.label(text), session_facts, facts.connection_details(rows))

    async def overview(self, settings: dict[str, str], replicates: bool) -> dict[str, str]:
        """Connections, the server's start, whether it takes writes. Gives its counters."""
        counters = facts.named(await self.rows(queries.COUNTERS, facts.NamedValue) or ())
        if settings and counters:
            server_facts = facts.server_facts(
                settings, counters, self.snapshot.window_s, replicates
            )
            self.snapshot.add(self.label(queries.COUNTERS), server_facts)
        return counters

    async def replication(self) -> bool:
        """What it says as a replica. Gives whether it is one, or may be one."""
        rows = await self.rows(queries.REPLICA, dict[str, Any])
        if rows:
            replica_facts = [fact for row in rows for fact in facts.replica_facts(row)]
            self.snapshot.add(self.label(queries.REPLICA), replica_facts)
        # If the query fails it may be a replica, which is read-only on purpose.
        return rows is None or bool(rows)

    async def counts(self) -> list[StatementCounts]:
        """Of each statement."""
        rows = await self.rows(queries.STATEMENTS, facts.StatementRow)
        return [row.counts() for row in rows or ()]
