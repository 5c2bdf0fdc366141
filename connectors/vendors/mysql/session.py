"""A connection to MySQL or MariaDB that can only read: its transactions are read-only, with limits
of time, and the server enforces both.

PyMySQL refuses `LOAD DATA LOCAL` and several statements in one unless asked for them. It blocks, so
it is asked in a thread.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, TypeVar

import pymysql
from pymysql.constants import ER
from pymysql.cursors import DictCursor

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.databases.driver_calls import logged_in, permitted_call, values_of
from faultline.connectors.shared.settings.connector_settings import DatabaseAddress, Limits
from faultline.connectors.shared.transport.budgets import Deadline
from faultline.connectors.shared.transport.rate_limiter import rate_limiter_of
from faultline.connectors.shared.vendor_text import short

T = TypeVar("T")
R = TypeVar("R")
VENDOR = "mysql"
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


class MysqlSession:
    """One collection's queries, one after the other."""

    def __init__(
        self, server: DatabaseAddress, limits: Limits, deadline: Deadline, statement_s: float
    ) -> None:
        self.server = server
        self.deadline = deadline
        self.version = ""
        self._limiter = rate_limiter_of(VENDOR, server.address, limits)
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
        await self._run_call("connect", self._open)

    async def close(self) -> None:
        """Log out."""
        if self._connection is not None and self._connection.open:
            await asyncio.to_thread(self._connection.close)

    async def rows(self, call: str, text: str, *, type: type[T]) -> list[T]:
        """The rows of one of our queries. Raises ConnectorError, BudgetExceeded."""
        raw_rows = await self._run_call(call, lambda: self._read(text))
        return values_of(VENDOR, call, raw_rows, type)

    def _open(self) -> None:
        server = self.server
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

    async def _run_call(self, call: str, asks: Callable[[], R]) -> R:
        errors = (pymysql.Error, OSError, ssl.SSLError, ValueError)
        async with permitted_call(self._limiter, self.deadline, errors, partial(_problem, call)):
            return await asyncio.to_thread(asks)


def _problem(call: str, error: Exception) -> tuple[ConnectorError, bool]:
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = short(str(error.args[-1]) if error.args else "", 200) or type(error).__name__
    if number in NOT_PERMITTED:
        text = f"not permitted: {text}"
    # Below 2000 and from 3000 on are the server's own errors, 2000 to 2999 those of a client.
    lost = not isinstance(error, pymysql.Error) or 2000 <= number < 3000
    return ConnectorError(VENDOR, call, text, retryable=lost), lost


def opened(
    server: DatabaseAddress, limits: Limits, statement_s: float
) -> AbstractAsyncContextManager[MysqlSession]:
    """A session that is logged in. Raises ConnectorError, BudgetExceeded."""
    return logged_in(MysqlSession(server, limits, Deadline.within(limits), statement_s))
