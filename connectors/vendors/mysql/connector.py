"""MySQL's and MariaDB's own state: chains of locks, open transactions, connections, statements,
replication, deadlocks.

A snapshot of now, with what the server itself knows of the time before: since when a session waits,
a transaction is open or the server runs. Speaks to MySQL 8.0.22, MariaDB 10.5 and later.

The connection can only read: its transactions are read-only, with limits of time, and the server
enforces both. PyMySQL refuses `LOAD DATA LOCAL` and several statements in one unless asked for
them. It blocks, so it is asked in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import pymysql
from pymysql.constants import ER
from pymysql.cursors import DictCursor

from faultline.analysis.errors import ConnectorError, SettingsError
from faultline.connectors.shared.contract.base import Check
from faultline.connectors.shared.databases.database_facts import (
    StatementCounts,
    deadlock_facts,
    lock_facts,
    open_facts,
    slower_facts,
    slowest_details,
)
from faultline.connectors.shared.databases.database_server import DatabaseConnector, ServerSnapshot
from faultline.connectors.shared.databases.driver_session import DriverSession, values_of
from faultline.connectors.shared.settings.connector_settings import DatabaseAddress, Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.mysql import MysqlSettings, facts, queries

T = TypeVar("T")
VENDOR = "mysql"
LIMITS = Limits(deadline_s=30, max_bytes=16 * 1024 * 1024, requests_per_s=20, concurrency=2)
LONGEST_CONNECT_S = 10.0
NOT_PERMITTED = frozenset(
    {
        ER.SPECIFIC_ACCESS_DENIED_ERROR,
        ER.TABLEACCESS_DENIED_ERROR,
        ER.DBACCESS_DENIED_ERROR,
        ER.COLUMNACCESS_DENIED_ERROR,
    }
)
# Both write the times of transactions in the server's zone (storage/innobase/handler/i_s.cc).
SAFE = (
    "SET SESSION TRANSACTION READ ONLY",
    "SET SESSION time_zone = 'SYSTEM'",
    "SET SESSION lock_wait_timeout = 1",
)


class MysqlSession(DriverSession):
    """One collection's queries, one after the other."""

    vendor = VENDOR
    errors = (pymysql.Error, OSError, ValueError)

    def __init__(self, server: DatabaseAddress, limits: Limits, statement_s: float) -> None:
        super().__init__(server.address, limits)
        self.version = ""
        self._server = server
        self._statement_s = statement_s
        self._connection: pymysql.Connection[DictCursor] | None = None

    @property
    def is_mariadb(self) -> bool:
        """As its version says."""
        return "mariadb" in self.version.casefold()

    @property
    def product(self) -> str:
        """For humans. MariaDB says that it is MySQL 5.5.5 first, for old replicas."""
        version = self.version.removeprefix("5.5.5-").partition("-")[0]
        return f"{'MariaDB' if self.is_mariadb else 'MySQL'} {short(version, 20)}"

    async def connect(self) -> None:
        """Log in, and hold the session to reading. Raises ConnectorError, BudgetExceeded."""
        await self.in_thread("connect", self._open)

    async def close(self) -> None:
        """Log out."""
        if self._connection is not None and self._connection.open:
            await asyncio.to_thread(self._connection.close)

    async def rows(self, call: str, text: str, *, type: type[T]) -> list[T]:
        """The rows of one of our queries. Raises ConnectorError, BudgetExceeded."""
        return values_of(VENDOR, call, await self.in_thread(call, lambda: self._read(text)), type)

    def problem(self, call: str, error: Exception) -> ConnectorError:
        """Below 2000 and from 3000 on are the server's own errors, 2000 to 2999 those of a
        client."""
        number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        text = short(str(error.args[-1]) if error.args else "", 200) or type(error).__name__
        if number in NOT_PERMITTED:
            text = f"not permitted: {text}"
        lost = not isinstance(error, pymysql.Error) or 2000 <= number < 3000
        return ConnectorError(VENDOR, call, text, retryable=lost)

    def _open(self) -> None:
        server = self._server
        connection = pymysql.connect(
            host=server.host,
            port=server.port,
            user=server.username,
            password=server.password or "",
            ssl=server.context(),
            ssl_disabled=server.tls == "off",
            connect_timeout=max(1.0, min(LONGEST_CONNECT_S, self.deadline.remaining)),
            read_timeout=self._statement_s + 1,
            write_timeout=self._statement_s + 1,
            charset="utf8mb4",
            program_name="faultline",
            cursorclass=DictCursor,
        )
        self._connection = connection
        self.version = str(connection.get_server_info())
        limit = f"SET SESSION max_execution_time = {round(1000 * self._statement_s)}"
        if self.is_mariadb:
            limit = f"SET SESSION max_statement_time = {self._statement_s:g}"
        with connection.cursor() as cursor:
            for statement in (*SAFE, limit):
                cursor.execute(statement)

    def _read(self, text: str) -> Sequence[Mapping[str, Any]]:
        assert self._connection is not None, "connect comes first"
        with self._connection.cursor() as cursor:
            cursor.execute("START TRANSACTION READ ONLY")
            try:
                cursor.execute(text)
                rows: Sequence[Mapping[str, Any]] = cursor.fetchall()
            finally:
                # The server rolls back a lost connection by itself.
                if self._connection.open:
                    cursor.execute("ROLLBACK")
        return rows


class MysqlConnector(DatabaseConnector[MysqlSettings, MysqlSession]):
    """One server."""

    name = VENDOR
    default_limits = LIMITS

    def opened(self) -> MysqlSession:
        section = self.section
        server = section.address(self.host, section.port)
        return MysqlSession(server, self.limits, section.statement_s)

    async def read(self, session: MysqlSession, snapshot: ServerSnapshot) -> None:
        reading = _MysqlReading(session, snapshot)
        sessions = await reading.sessions()
        settings = facts.named(await reading.rows(queries.SETTINGS, facts.NamedValue) or ())
        programs = None
        if settings.get("performance_schema") == "ON":
            programs = await reading.rows(queries.PROGRAMS, facts.ProgramRow)
        clients = facts.clients_of(sessions, programs or ())
        self.called_by(snapshot, reading.label("processlist"), clients)
        replicates = await reading.replication()
        first = await reading.overview(settings, replicates)
        await self._sampled(reading, settings, first)

    async def examined(self, session: MysqlSession) -> Check:
        rows = await session.rows("grants", queries.GRANTS, type=dict[str, Any])
        named = await session.rows("settings", queries.SETTINGS, type=facts.NamedValue)
        grants = [str(text) for row in rows for text in row.values()]
        line = f"{session.product} at {session.address} can be read"
        unread = []
        if not any("PROCESS" in grant or "ALL PRIVILEGES" in grant for grant in grants):
            unread.append("other users' sessions")
            line += "; GRANT PROCESS to this user for the sessions of others"
        if facts.named(named).get("performance_schema") != "ON":
            unread.append("statements")
            line += "; performance_schema is off, so that statements are not counted"
        line += f"; each query is a read-only transaction of at most {self.section.statement_s:g} s"
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
        if not self.section.sample_s:
            return
        before = await reading.counts() if counts_statements else []
        deadlocks = await reading.rows(queries.DEADLOCKS, facts.CountRow)
        await asyncio.sleep(self.section.sample_s)
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
        self.label = session.label

    async def rows(self, text: str, type: type[T]) -> list[T] | None:
        """None where it failed, which is a gap then."""
        # What is asked, in a few words: the table, or the statement itself.
        words = text.split()
        if words[0] == "SHOW":
            call = " ".join(words[:3])
        else:
            call = words[words.index("FROM") + 1] if "FROM" in words else words[0]
        rows = self._session.rows(call, text, type=type)
        return await self.snapshot.fetch(self.label(text), rows)

    async def sessions(self) -> list[facts.SessionRow]:
        """Who waits for whom, and what stays open. Gives all sessions."""
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
        return rows or []

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


def build(section: MysqlSettings, shared: SharedSettings) -> MysqlConnector | None:
    """The configured connector, or None without a host. Raises SettingsError."""
    if section.host is None:
        return None
    if section.username is None:
        raise SettingsError("mysql.username", "must name a user that only reads statistics")
    return MysqlConnector(section, section.host, shared)
