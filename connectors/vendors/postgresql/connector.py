"""PostgreSQL's own state: chains of locks, open transactions, connections, statements, replicas,
slots, ages and sizes.

It is a snapshot of now, with what the server itself knows of the time before: since when a session
waits, when the server started and when its settings were read. Speaks to PostgreSQL 14 and later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import LiteralString, TypeVar

from faultline.analysis.errors import FaultlineError, SettingsError
from faultline.analysis.vocabulary import EvidenceKind
from faultline.connectors.shared.contract.base import Check, Collected, Item, Request
from faultline.connectors.shared.databases.database_facts import (
    StatementCounts,
    deadlock_facts,
    lock_facts,
    open_facts,
    slower_facts,
    slowest_details,
)
from faultline.connectors.shared.databases.database_server import Fact, ServerSnapshot
from faultline.connectors.shared.rows.collection_builder import full_window, nanoseconds
from faultline.connectors.shared.rows.service_names import ServiceNames, in_scope
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.vendors.postgresql import PostgresqlSettings, facts, queries
from faultline.connectors.vendors.postgresql.session import PostgresServer, PostgresSession, opened

LIMITS = Limits(deadline_s=30, max_bytes=16 * 1024 * 1024, requests_per_s=20, concurrency=2)
MOST_SERVICES = 200
Row = TypeVar("Row")


def build(
    postgresql_settings: PostgresqlSettings, settings: SharedSettings
) -> PostgresqlConnector | None:
    """The configured connector, or None without a host. Raises SettingsError."""
    if postgresql_settings.host is None:
        return None
    if postgresql_settings.username is None and postgresql_settings.client_cert_file is None:
        raise SettingsError("postgresql.username", "must name a user that only reads statistics")
    primary = PostgresServer(
        postgresql_settings.host,
        postgresql_settings.port,
        postgresql_settings.database,
        postgresql_settings.username,
        postgresql_settings.plain_password,
        postgresql_settings.tls,
        postgresql_settings.ca_file,
        postgresql_settings.client_cert_file,
        postgresql_settings.client_key_file,
    )
    copy = None
    if postgresql_settings.replica is not None:
        copy = replace(
            primary,
            host=postgresql_settings.replica,
            port=postgresql_settings.replica_port or postgresql_settings.port,
        )
    return PostgresqlConnector(
        primary,
        postgresql_settings.of_service(postgresql_settings.host),
        replica=copy,
        names=ServiceNames.of_catalogue(settings.services),
        catalogue=tuple(settings.services),
        sample_s=postgresql_settings.sample_s,
        statement_s=postgresql_settings.statement_s,
        limits=postgresql_settings.limits(LIMITS),
    )


class PostgresqlConnector:
    """One server, and one replica of it. Its facts are about `service`."""

    name = "postgresql"
    kinds: tuple[EvidenceKind, ...] = ("states", "changes", "topology")

    def __init__(
        self,
        server: PostgresServer,
        service: str,
        *,
        replica: PostgresServer | None = None,
        names: ServiceNames | None = None,
        catalogue: Sequence[str] = (),
        sample_s: float = 5.0,
        statement_s: float = 5.0,
        limits: Limits = LIMITS,
    ) -> None:
        self._server = server
        self._service = service
        self._replica = replica
        self._names = names or ServiceNames()
        self._catalogue = tuple(catalogue)
        self._sample_s = sample_s
        self._statement_s = statement_s
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """The snapshot. A query that fails becomes a gap, the others stand."""
        snapshot = ServerSnapshot("Database", self._service, datetime.now(UTC), request.scope)
        if snapshot.comes_too_late():
            return snapshot.builder.collected()
        async with opened(self._server, self.limits, self._statement_s) as session:
            reading = _Reading(session, snapshot)
            await self._sessions(reading, request)
            server = await self._overview(reading)
            await self._statements(reading, server)
            await reading.facts(queries.REPLICAS, facts.ReplicaRow, facts.replica_facts)
            await reading.facts(queries.SLOTS, facts.SlotRow, facts.slot_facts)
            await reading.facts(
                queries.TABLES, facts.TableRow, facts.table_facts, facts.table_details
            )
            # Ages and sizes are the same on a replica, which spares the primary.
            if self._replica is None:
                await self._sizes(reading)
        if self._replica is not None:
            await self._read_replica(self._replica, snapshot)
        return snapshot.builder.collected()

    async def check(self) -> Check:
        """Reachable, and may this user read everything and write nothing?"""
        try:
            async with opened(self._server, self.limits, self._statement_s) as session:
                [server] = await session.rows("server", queries.SERVER, type=facts.ServerRow)
                [rights] = await session.rows("rights", queries.MAY_WRITE, type=facts.RightsRow)
                counts = await session.rows(
                    "extension", queries.STATEMENTS_SCHEMA, type=facts.SchemaRow
                )
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        kinds = "statistics" if rights.reads_statistics else "its own sessions alone"
        line = f"PostgreSQL {server.version} at {self._server.address}: {kinds} can be read"
        unread = []
        if not rights.reads_statistics:
            unread.append("other users' sessions")
            line += "; GRANT pg_monitor to this user for those of others"
        if not counts:
            unread.append("pg_stat_statements")
            line += "; pg_stat_statements is not installed here"
        # By which rights a user can change something.
        permissions = {
            "superuser": rights.superuser,
            "creates roles or databases, or replicates": rights.administers,
            "a role that writes or signals": rights.writes_by_role,
            "CREATE on the database": rights.creates,
            f"{rights.tables} tables": rights.tables > 0,
        }
        writing = [permission for permission, holds in permissions.items() if holds]
        line += f"; each query is a read-only transaction of at most {self._statement_s:g} s"
        if writing:
            line += f"; warning: this user can also write ({', '.join(writing)})"
        return Check(self.name, True, line, tuple(unread))

    async def _sessions(self, reading: _Reading, request: Request) -> None:
        rows = await reading.rows(queries.SESSIONS, facts.SessionRow)
        if rows is None:
            return
        sessions = facts.sessions_of(rows)
        session_facts = [*lock_facts(sessions), *open_facts(sessions)]
        reading.snapshot.add(
            reading.label(queries.SESSIONS), session_facts, facts.connection_details(rows)
        )
        if hidden := sum(row.is_hidden for row in rows):
            problem = f"what {hidden} sessions of other users do is hidden: GRANT pg_monitor"
            reading.snapshot.lacks(reading.label(queries.SESSIONS), problem)
        self._callers(reading, rows, request)

    def _callers(
        self, reading: _Reading, rows: Sequence[facts.SessionRow], request: Request
    ) -> None:
        """Services whose name is that of an application with connections call this database."""
        scope, _ = in_scope(request, MOST_SERVICES)
        spellings = {name.casefold(): name for name in (*self._catalogue, *scope)}
        callers = []
        for row in rows:
            ours = self._names.ours(row.application or "")
            # An application may call itself anything: only known services count.
            if ours.casefold() in spellings:
                callers.append(spellings[ours.casefold()])
        count = reading.snapshot.calls(callers)
        if count:
            window = full_window(request.scope)
            item = Item("topology", reading.label(queries.SESSIONS), window, rows=count)
            reading.snapshot.builder.items.append(item)

    async def _overview(self, reading: _Reading) -> facts.ServerRow | None:
        rows = await reading.rows(queries.SERVER, facts.ServerRow)
        if not rows:
            return None
        [row], snapshot = rows, reading.snapshot
        window = full_window(snapshot.scope)
        window_s = (snapshot.at - window.start).total_seconds()
        query = reading.label(queries.SERVER)
        snapshot.add(query, facts.server_facts(row, window_s))
        # A start reads the settings too. Only a later reload is a separate change.
        if row.loaded_s <= window_s and row.up_s - row.loaded_s > 1:
            at = snapshot.since(row.loaded_s)
            assert at is not None
            named = f"settings {self._service} {at:%Y-%m-%dT%H:%M:%S}"
            title = "PostgreSQL read its settings again"
            row_of_change = (nanoseconds(at), self._service, "config", named, title, *[None] * 4)
            snapshot.builder.add("changes", [row_of_change])
            item = Item("changes", query, window, rows=1).holding([row_of_change])
            snapshot.builder.items.append(item)
        return row

    async def _statements(self, reading: _Reading, server: facts.ServerRow | None) -> None:
        """Two readings of the counters; the second tells what happened between them."""
        schemas = await reading.rows(queries.STATEMENTS_SCHEMA, facts.SchemaRow)
        if not schemas:
            reading.snapshot.lacks("pg_stat_statements", "the extension is not in this database")
        schema = schemas[0].schema if schemas else ""
        before = await self._counts(reading, schema)
        if not self._sample_s:
            return
        await asyncio.sleep(self._sample_s)
        after = await self._counts(reading, schema)
        if before and after:
            query = reading.label(queries.STATEMENTS)
            reading.snapshot.add(query, slower_facts(before, after), slowest_details(after))
        # The counter of deadlocks has no times: the second reading tells the new ones.
        later = await reading.rows(queries.SERVER, facts.ServerRow)
        if server is not None and later:
            new_deadlocks = deadlock_facts(server.deadlocks or 0.0, later[0].deadlocks or 0.0)
            if new_deadlocks:
                reading.snapshot.add(reading.label(queries.SERVER), new_deadlocks)

    async def _counts(self, reading: _Reading, schema: str) -> list[StatementCounts]:
        if not schema:
            return []
        rows = await reading.rows(queries.STATEMENTS, facts.StatementRow, schema)
        return [row.counts() for row in rows or ()]

    async def _sizes(self, reading: _Reading) -> None:
        await reading.facts(
            queries.DATABASES, facts.DatabaseRow, facts.age_facts, facts.size_details
        )

    async def _read_replica(self, replica: PostgresServer, snapshot: ServerSnapshot) -> None:
        try:
            async with opened(replica, self.limits, self._statement_s) as session:
                reading = _Reading(session, snapshot)
                rows = await reading.rows(queries.STANDBY, facts.StandbyRow)
                if rows:
                    standby_facts = facts.standby_facts(rows[0], f"replica {replica.host}")
                    snapshot.add(reading.label(queries.STANDBY), standby_facts)
                await self._sizes(reading)
        except FaultlineError as error:
            snapshot.lacks(f"replica {replica.address}", str(error))


class _Reading:
    """Queries of one session, whose failures are gaps of the snapshot."""

    def __init__(self, session: PostgresSession, snapshot: ServerSnapshot) -> None:
        self._session = session
        self.snapshot = snapshot

    def label(self, text: str) -> str:
        """The query as evidence names it: where it was asked, and on one line."""
        return f"{self._session.server.address}: {' '.join(text.split())}"

    async def rows(
        self, text: LiteralString, type: type[Row], schema: str = ""
    ) -> list[Row] | None:
        """None where it failed, which is a gap then."""
        # `ReplicaRow` is the answer of the call `replica`.
        view = type.__name__.removesuffix("Row").lower()
        try:
            return await self._session.rows(view, text, type=type, schema=schema)
        except FaultlineError as error:
            self.snapshot.lacks(self.label(text), str(error))
            return None

    async def facts(
        self,
        text: LiteralString,
        type: type[Row],
        judged: Callable[[Sequence[Row]], list[Fact]],
        shown: Callable[[Sequence[Row]], dict[str, str]] | None = None,
    ) -> None:
        """Ask, and add what the rows say."""
        rows = await self.rows(text, type)
        if rows is not None:
            self.snapshot.add(self.label(text), judged(rows), shown(rows) if shown else None)
