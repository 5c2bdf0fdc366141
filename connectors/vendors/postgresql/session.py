"""A connection to PostgreSQL that can only read: each query is a separate read-only transaction
with a limit of time.

The server enforces both: `BEGIN READ ONLY`, `statement_timeout` and `lock_timeout`. They are set
within the transaction, so that a pooler in front passes them on to nobody else.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import LiteralString, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.databases.driver_calls import logged_in, permitted_call, values_of
from faultline.connectors.shared.settings.connector_settings import Limits, Tls
from faultline.connectors.shared.transport.budgets import Deadline
from faultline.connectors.shared.transport.rate_limiter import rate_limiter_of
from faultline.connectors.shared.vendor_text import short

T = TypeVar("T")
VENDOR = "postgresql"
LONGEST_CONNECT_S = 10
LOCK_S = 0.5
"""Reading statistics waits for locks of the catalogue alone; who holds one of those makes every
query of ours wait."""
TIMEOUTS: LiteralString = "SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}"
SSL_MODES = {"verify": "verify-full", "require": "require", "off": "disable"}


@dataclass(frozen=True)
class PostgresServer:
    """The address of a server, and the login for it."""

    host: str
    port: int
    database: str
    username: str | None
    password: str | None
    tls: Tls
    ca_file: Path | None = None
    client_cert_file: Path | None = None
    client_key_file: Path | None = None

    @property
    def address(self) -> str:
        """For humans."""
        return f"{self.host}:{self.port}"

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


class PostgresSession:
    """One collection's queries, one after the other."""

    def __init__(
        self, server: PostgresServer, limits: Limits, deadline: Deadline, statement_s: float
    ) -> None:
        self.server = server
        self.deadline = deadline
        self._limiter = rate_limiter_of(VENDOR, server.address, limits)
        self._statement_s = statement_s
        self._connection: psycopg.AsyncConnection[dict[str, object]] | None = None

    async def connect(self) -> None:
        """Log in. Raises ConnectorError, BudgetExceeded."""
        async with self._asking("connect"):
            self._connection = await psycopg.AsyncConnection[dict[str, object]].connect(
                **self.server.parameters(),  # type: ignore[arg-type]
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
        async with self._asking(call), self._connection.transaction():
            # Within the transaction: SET LOCAL ends with it.
            await self._connection.execute(limits)
            cursor = await self._connection.execute(query)
            rows = await cursor.fetchall()
        return values_of(VENDOR, call, rows, type)

    def _asking(self, call: str) -> AbstractAsyncContextManager[None]:
        errors = (psycopg.Error,)
        return permitted_call(self._limiter, self.deadline, errors, partial(_problem, call))


def _problem(call: str, error: psycopg.Error) -> tuple[ConnectorError, bool]:
    name = short(error.diag.message_primary or str(error), 200) or type(error).__name__
    if isinstance(error, psycopg.errors.QueryCanceled):
        name = "the statement took too long and was cancelled (statement_s)"
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        name = "not permitted: GRANT pg_monitor to this user"
    # Without an SQLSTATE it is not the server that answers: the connection is gone.
    lost = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
    return ConnectorError(VENDOR, call, name, retryable=lost), lost


def opened(
    server: PostgresServer, limits: Limits, statement_s: float, deadline: Deadline | None = None
) -> AbstractAsyncContextManager[PostgresSession]:
    """A session that is logged in. Raises ConnectorError, BudgetExceeded."""
    deadline = deadline or Deadline.within(limits)
    return logged_in(PostgresSession(server, limits, deadline, statement_s))
