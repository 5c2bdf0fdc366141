"""A connection to PostgreSQL that can only read: each query is a separate read-only transaction
with a limit of time.

The server enforces both: `BEGIN READ ONLY`, `statement_timeout` and `lock_timeout`. They are set
within the transaction, so that a pooler in front passes them on to nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString, TypeVar

import msgspec
import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from analysis.errors import BudgetExceeded, ConnectorError
from connectors.budgets import Deadline
from connectors.database_settings import Tls
from connectors.limits import Limits
from connectors.rate_limiter import rate_limiter_of
from connectors.vendor_text import short

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
    """Where a server is, and as whom it is asked."""

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
        found: dict[str, str | int | Path | None] = {
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
            found["sslrootcert"] = self.ca_file or "system"
        known = {name: value for name, value in found.items() if value is not None}
        return {n: str(v) if isinstance(v, Path) else v for n, v in known.items()}


class PostgresSession:
    """One collection's queries, one after the other."""

    def __init__(
        self, server: PostgresServer, limits: Limits, deadline: Deadline, statement_s: float
    ) -> None:
        self.server = server
        self.deadline = deadline
        self._limiter = rate_limiter_of(VENDOR, server.address, limits)
        self._timeouts: LiteralString = (
            "SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}"
        )
        self._statement_s = statement_s
        self._connection: psycopg.AsyncConnection[dict[str, object]] | None = None

    async def connect(self) -> None:
        """Log in. Raises ConnectorError, BudgetExceeded."""
        async with self._asking("connect"):
            self._connection = await psycopg.AsyncConnection[dict[str, object]].connect(
                **self.server.parameters(),  # type: ignore[arg-type]
                autocommit=False,
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
            await self._connection.execute(limits)
            cursor = await self._connection.execute(query)
            found = [_as_text(row) for row in await cursor.fetchall()]
        try:
            return msgspec.convert(found, type=list[type], strict=True)  # type: ignore[valid-type]
        except msgspec.ValidationError as error:
            problem = f"unexpected response: {short(str(error))}"
            raise ConnectorError(VENDOR, call, problem) from error

    @asynccontextmanager
    async def _asking(self, call: str) -> AsyncIterator[None]:
        """One permit, within the deadline; the driver's errors as ours."""
        breaker = self._limiter.breaker
        async with self._limiter.permit(self.deadline):
            try:
                async with asyncio.timeout(self.deadline.remaining):
                    yield
            except TimeoutError:
                breaker.record(failed=True, why="no answer in time")
                raise BudgetExceeded("time", f"{self.deadline.seconds:g} s") from None
            except psycopg.Error as error:
                said = _problem(error)
                lost = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
                breaker.record(failed=lost, why=said)
                raise ConnectorError(VENDOR, call, said, retryable=lost) from error
            breaker.record(failed=False)


def _as_text(row: dict[str, object]) -> dict[str, object]:
    """Texts of a database without an encoding (SQL_ASCII) come as bytes."""
    read: dict[str, object] = {}
    for name, value in row.items():
        read[name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return read


def _problem(error: psycopg.Error) -> str:
    if isinstance(error, psycopg.errors.QueryCanceled):
        return "the statement took too long and was cancelled (statement_s)"
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return "not permitted: GRANT pg_monitor to this user"
    return short(error.diag.message_primary or str(error), 200) or type(error).__name__


@asynccontextmanager
async def opened(
    server: PostgresServer, limits: Limits, statement_s: float, deadline: Deadline | None = None
) -> AsyncIterator[PostgresSession]:
    """A session that is logged in. Raises ConnectorError, BudgetExceeded."""
    session = PostgresSession(server, limits, deadline or Deadline.within(limits), statement_s)
    try:
        await session.connect()
        yield session
    finally:
        await session.close()
