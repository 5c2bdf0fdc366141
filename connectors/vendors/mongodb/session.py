"""A connection to MongoDB for commands that read its state, each with a limit of time.

PyMongo blocks, so it is asked in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import msgspec
from pymongo import MongoClient
from pymongo.errors import ConfigurationError, ConnectionFailure, OperationFailure, PyMongoError

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.databases.driver_calls import logged_in, permitted_call
from faultline.connectors.shared.settings.connector_settings import DatabaseAddress, Limits
from faultline.connectors.shared.transport.budgets import Deadline
from faultline.connectors.shared.transport.rate_limiter import rate_limiter_of
from faultline.connectors.shared.vendor_text import short, unexpected_response

T = TypeVar("T")
R = TypeVar("R")
VENDOR = "mongodb"
LONGEST_CONNECT_S = 5.0
UNAUTHORIZED, WRONG_LOGIN = 13, 18
DEEPEST = 12


class MongodbSession:
    """One collection's commands, one after the other."""

    def __init__(
        self,
        server: DatabaseAddress,
        auth_database: str,
        limits: Limits,
        deadline: Deadline,
        statement_s: float,
    ) -> None:
        self.server = server
        self._auth_database = auth_database
        self._deadline = deadline
        self._limiter = rate_limiter_of(VENDOR, server.address, limits)
        self._statement_s = statement_s
        self._client: MongoClient[dict[str, Any]] | None = None

    async def connect(self) -> None:
        """Log in. Raises ConnectorError, BudgetExceeded."""
        await self._run_call("connect", self._open)

    async def close(self) -> None:
        """Log out."""
        if self._client is not None:
            await asyncio.to_thread(self._client.close)

    async def answer(
        self, command: Mapping[str, Any], type: type[T], *, database: str = "admin"
    ) -> T:
        """Of one of our commands. Raises ConnectorError, BudgetExceeded."""
        call = next(iter(command))
        reply = await self._run_call(call, lambda: self._read(command, database))
        try:
            return msgspec.convert(reply, type=type, strict=False)
        except msgspec.ValidationError as error:
            raise unexpected_response(VENDOR, call, error) from error

    def _open(self) -> None:
        server = self.server
        connect_ms = round(1000 * max(1.0, min(LONGEST_CONNECT_S, self._deadline.remaining)))
        more: dict[str, Any] = {"tls": server.tls != "off"}
        if server.tls == "require":
            more["tlsAllowInvalidCertificates"] = True
        elif server.tls == "verify" and server.ca_file is not None:
            more["tlsCAFile"] = str(server.ca_file)
        if server.username is not None:
            more |= {"username": server.username, "password": server.password or ""}
            more["authSource"] = self._auth_database
        self._client = MongoClient(
            server.host,
            server.port,
            # This server alone, whatever set it belongs to.
            directConnection=True,
            appname="faultline",
            connectTimeoutMS=connect_ms,
            serverSelectionTimeoutMS=connect_ms,
            socketTimeoutMS=round(1000 * (self._statement_s + 1)),
            maxPoolSize=1,
            retryReads=False,
            tz_aware=True,
            datetime_conversion="DATETIME_CLAMP",
            unicode_decode_error_handler="replace",
            **more,
        )
        self._client.admin.command("ping")

    def _read(self, command: Mapping[str, Any], database: str) -> Any:
        assert self._client is not None, "connect comes first"
        limit_ms = round(1000 * self._statement_s)
        limited_command = {**command, "maxTimeMS": limit_ms}
        return _plain(self._client[database].command(limited_command), DEEPEST)

    async def _run_call(self, call: str, asks: Callable[[], R]) -> R:
        errors = (PyMongoError, OSError, ValueError)
        async with permitted_call(self._limiter, self._deadline, errors, partial(_problem, call)):
            return await asyncio.to_thread(asks)


class MongodbError(ConnectorError):
    """An error of the server with its code."""

    def __init__(
        self, vendor: str, call: str, problem: str, *, code: int | None, retryable: bool
    ) -> None:
        super().__init__(vendor, call, problem, retryable=retryable)
        self.code = code


def _problem(call: str, error: Exception) -> tuple[ConnectorError, bool]:
    lost, code = False, None
    if isinstance(error, OperationFailure):
        # The server's message quotes the command, which is ours.
        text = short(str((error.details or {}).get("errmsg") or error), 200)
        text, code = (f"not permitted: {text}" if error.code == UNAUTHORIZED else text), error.code
    elif isinstance(error, ConfigurationError):
        text = short(str(error), 200)
    else:
        # The rest of it describes what the driver knows of the server.
        part = str(error).partition(" (configured timeouts")[0].partition(", Timeout:")[0]
        text = short(part, 200) or type(error).__name__
        lost = isinstance(error, ConnectionFailure | OSError)
    return MongodbError(VENDOR, call, text, code=code, retryable=lost), lost


def _plain(value: Any, depth: int) -> Any:
    """As plain values: of types that only BSON has, nothing is needed but numbers and times."""
    if depth == 0:
        return None
    if isinstance(value, Mapping):
        return {str(name): _plain(member, depth - 1) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(member, depth - 1) for member in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float | str | datetime):
        return value
    return str(value)[:100]


def opened(
    server: DatabaseAddress, auth_database: str, limits: Limits, statement_s: float
) -> AbstractAsyncContextManager[MongodbSession]:
    """A session that is logged in. Raises ConnectorError, BudgetExceeded."""
    deadline = Deadline.within(limits)
    return logged_in(MongodbSession(server, auth_database, limits, deadline, statement_s))
