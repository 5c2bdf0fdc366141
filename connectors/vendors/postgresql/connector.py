"""PostgreSQL's own state: chains of locks, open transactions, connections, statements, replicas,
slots, ages and sizes.

It is a snapshot of now, with what the server itself knows of the time before: since when a session
waits, when the server started and when its settings were read. Speaks to PostgreSQL 14 and later.

The connection can only read: each query is a separate read-only transaction with a limit of time.
The server enforces both: `BEGIN READ ONLY`, `statement_timeout` and `lock_timeout`. They are set
within the transaction, so that a pooler in front passes them on to nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import LiteralString, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from faultline.analysis.errors import ConnectorError, FaultlineError, SettingsError
from faultline.connectors.shared.contract.base import Check, Item
from faultline.connectors.shared.databases.database_facts import (
    StatementCounts,
    deadlock_facts,
    lock_facts,
    open_facts,
    slower_facts,
    slowest_details,
)
from faultline.connectors.shared.databases.database_server import (
    DatabaseConnector,
    Fact,
    ServerSnapshot,
)
from faultline.connectors.shared.databases.driver_session import DriverSession, values_of
from faultline.connectors.shared.rows.collection_builder import full_window, nanoseconds
from faultline.connectors.shared.settings.connector_settings import DatabaseAddress, Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.postgresql import PostgresqlSettings, facts, queries

T = TypeVar("T")
VENDOR = "postgresql"
LIMITS = Limits(deadline_s=30, max_bytes=16 * 1024 * 1024, requests_per_s=20, concurrency=2)
LONGEST_CONNECT_S = 10
LOCK_S = 0.5
"""Reading statistics waits for locks of the catalogue alone; who holds one of those makes every
query of ours wait."""
TIMEOUTS: LiteralString = "SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}"
SSL_MODES = {"verify": "verify-full", "require": "require", "off": "disable"}


@dataclass(frozen=True)
class PostgresServer(DatabaseAddress):
    """The address of a server, and the login for it."""

    database: str = "postgres"
    client_cert_file: Path | None = None
    client_key_file: Path | None = None

    @classmethod
    def of(cls, section: PostgresqlSettings, host: str) -> PostgresServer:
        """The primary of these settings."""
        return cls(
            **vars(section.address(host, section.port)),
            database=section.database,
            client_cert_file=section.client_cert_file,
            client_key_file=section.client_key_file,
        )

    def parameters(self) -> dict[str, str | int]:
        """libpq's keywords."""
        ca_files: dict[str, str | int | Path | None] = {
            "host": self.host,
            "port": self.port,
            "dbname": self.database,
            "user": self.username,
            "password": self.password,
            "sslmode": SSL_MODES[self.tls],
            "sslcert": self.client_cert_file,
            "sslkey": self.client_key_file,
            "application_name": "faultline",
            "connect_timeout": LONGEST_CONNECT_S,
        }
        if self.tls == "verify":
            # Without it libpq looks for a root.crt in the home directory.
            ca_files["sslrootcert"] = self.ca_file or "system"
        values = {name: value for name, value in ca_files.items() if value is not None}
        return {n: str(v) if isinstance(v, Path) else v for n, v in values.items()}


class PostgresSession(DriverSession):
    """One collection's queries, one after the other."""

    vendor = VENDOR
    errors = (psycopg.Error,)

    def __init__(self, server: PostgresServer, limits: Limits, statement_s: float) -> None:
        super().__init__(server.address, limits)
        self._server = server
        self._statement_s = statement_s
        self._connection: psycopg.AsyncConnection[dict[str, object]] | None = None

    async def connect(self) -> None:
        """Log in. Raises ConnectorError, BudgetExceeded."""
        async with self.permitted("connect"):
            self._connection = await psycopg.AsyncConnection[dict[str, object]].connect(
                **self._server.parameters(),  # type: ignore[arg-type]
                autocommit=False,
                # Prepared statements fail behind a pooler that shares sessions.
                prepare_threshold=None,
                row_factory=dict_row,
            )
            await self._connection.set_read_only(True)

    async def close(self) -> None:
        """Log out."""
        if self._connection is not None:
            await self._connection.close()

    async def rows(
        self, call: str, text: LiteralString, *, type: type[T], schema: str = ""
    ) -> list[T]:
        """The rows of one of our queries. Raises ConnectorError, BudgetExceeded."""
        assert self._connection is not None, "connect comes first"
        query = sql.SQL(text).format(schema=sql.Identifier(schema)) if schema else sql.SQL(text)
        limits = sql.SQL(TIMEOUTS).format(
            sql.Literal(round(1000 * self._statement_s)), sql.Literal(round(1000 * LOCK_S))
        )
        async with self.permitted(call), self._connection.transaction():
            # Within the transaction: SET LOCAL ends with it.
            await self._connection.execute(limits)
            cursor = await self._connection.execute(query)
            rows = await cursor.fetchall()
        return values_of(VENDOR, call, rows, type)

    def problem(self, call: str, error: Exception) -> ConnectorError:
        assert isinstance(error, psycopg.Error)
        text = short(error.diag.message_primary or str(error), 200) or type(error).__name__
        if isinstance(error, psycopg.errors.QueryCanceled):
            text = "the statement took too long and was cancelled (statement_s)"
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            text = "not permitted: GRANT pg_monitor to this user"
        # Without an SQLSTATE it is not the server that answers: the connection is gone.
        lost = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
        return ConnectorError(VENDOR, call, text, retryable=lost)


class PostgresqlConnector(DatabaseConnector[PostgresqlSettings, PostgresSession]):
    """One server, and one replica of it."""

    name = VENDOR
    kinds = ("states", "changes", "topology")
    default_limits = LIMITS

    def __init__(self, section: PostgresqlSettings, host: str, shared: SharedSettings) -> None:
        super().__init__(section, host, shared)
        self._server = PostgresServer.of(section, host)

    def opened(self) -> PostgresSession:
        return self._session(self._server)

    def _session(self, server: PostgresServer) -> PostgresSession:
        return PostgresSession(server, self.limits, self.section.statement_s)

    async def read(self, session: PostgresSession, snapshot: ServerSnapshot) -> None:
        reading = _Reading(session, snapshot)
        await self._sessions(reading)
        server = await self._overview(reading)
        await self._statements(reading, server)
        await reading.facts(queries.REPLICAS, facts.ReplicaRow, facts.replica_facts)
        await reading.facts(queries.SLOTS, facts.SlotRow, facts.slot_facts)
        await reading.facts(queries.TABLES, facts.TableRow, facts.table_facts, facts.table_details)
        # Ages and sizes are the same on a replica, which spares the primary.
        if self.section.replica is None:
            await self._sizes(reading)
        if self.section.replica is not None:
            await self._read_replica(self.section.replica, snapshot)

    async def examined(self, session: PostgresSession) -> Check:
        [server] = await session.rows("server", queries.SERVER, type=facts.ServerRow)
        [rights] = await session.rows("rights", queries.MAY_WRITE, type=facts.RightsRow)
        counts = await session.rows("extension", queries.STATEMENTS_SCHEMA, type=facts.SchemaRow)
        kinds = "statistics" if rights.reads_statistics else "its own sessions alone"
        line = f"PostgreSQL {server.version} at {session.address}: {kinds} can be read"
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
        line += f"; each query is a read-only transaction of at most {self.section.statement_s:g} s"
        if writing:
            line += f"; warning: this user can also write ({', '.join(writing)})"
        return Check(self.name, True, line, tuple(unread))

    async def _sessions(self, reading: _Reading) -> None:
        rows = await reading.rows(queries.SESSIONS, facts.SessionRow)
        if rows is None:
            return
        snapshot, query = reading.snapshot, reading.label(queries.SESSIONS)
        sessions = facts.sessions_of(rows)
        session_facts = [*lock_facts(sessions), *open_facts(sessions)]
        snapshot.add(query, session_facts, facts.connection_details(rows))
        if hidden := sum(row.is_hidden for row in rows):
            problem = f"what {hidden} sessions of other users do is hidden: GRANT pg_monitor"
            snapshot.lacks(query, problem)
        self.called_by(snapshot, query, [(row.application or "", "") for row in rows])

    async def _overview(self, reading: _Reading) -> facts.ServerRow | None:
        rows = await reading.rows(queries.SERVER, facts.ServerRow)
        if not rows:
            return None
        [row], snapshot = rows, reading.snapshot
        window, window_s = full_window(snapshot.scope), snapshot.window_s
        query = reading.label(queries.SERVER)
        snapshot.add(query, facts.server_facts(row, window_s))
        # A start reads the settings too. Only a later reload is a separate change.
        if row.loaded_s <= window_s and row.up_s - row.loaded_s > 1:
            at = snapshot.since(row.loaded_s)
            assert at is not None
            named = f"settings {self.service} {at:%Y-%m-%dT%H:%M:%S}"
            title = "PostgreSQL read its settings again"
            row_of_change = (nanoseconds(at), self.service, "config", named, title, *[None] * 4)
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
        if not self.section.sample_s:
            return
        await asyncio.sleep(self.section.sample_s)
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

    async def _read_replica(self, host: str, snapshot: ServerSnapshot) -> None:
        port = self.section.replica_port or self.section.port
        replica = replace(self._server, host=host, port=port)
        try:
            async with self._session(replica) as session:
                reading = _Reading(session, snapshot)
                rows = await reading.rows(queries.STANDBY, facts.StandbyRow)
                if rows:
                    standby_facts = facts.standby_facts(rows[0], f"replica {host}")
                    snapshot.add(reading.label(queries.STANDBY), standby_facts)
                await self._sizes(reading)
        except FaultlineError as error:
            snapshot.lacks(f"replica {replica.address}", str(error))


class _Reading:
    """Queries of one session, whose failures are gaps of the snapshot."""

    def __init__(self, session: PostgresSession, snapshot: ServerSnapshot) -> None:
        self._session = session
        self.snapshot = snapshot
        self.label = session.label

    async def rows(self, text: LiteralString, type: type[T], schema: str = "") -> list[T] | None:
        """None where it failed, which is a gap then."""
        # `ReplicaRow` is the answer of the call `replica`.
        view = type.__name__.removesuffix("Row").lower()
        rows = self._session.rows(view, text, type=type, schema=schema)
        return await self.snapshot.fetch(self.label(text), rows)

    async def facts(
        self,
        text: LiteralString,
        type: type[T],
        judged: Callable[[Sequence[T]], list[Fact]],
        shown: Callable[[Sequence[T]], dict[str, str]] | None = None,
    ) -> None:
        """Ask, and add what the rows say."""
        rows = await self.rows(text, type)
        if rows is not None:
            self.snapshot.add(self.label(text), judged(rows), shown(rows) if shown else None)


def build(section: PostgresqlSettings, shared: SharedSettings) -> PostgresqlConnector | None:
    """The configured connector, or None without a host. Raises SettingsError."""
    if section.host is None:
        return None
    if section.username is None and section.client_cert_file is None:
        raise SettingsError("postgresql.username", "must name a user that only reads statistics")
    return PostgresqlConnector(section, section.host, shared)
