"""What connectors share that ask by a driver or a protocol instead of HTTP: one permit for each
call, within the deadline, errors as ours, rows as values."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

import msgspec

from faultline.analysis.errors import BudgetExceeded, ConnectorError
from faultline.connectors.shared.transport.budgets import Deadline
from faultline.connectors.shared.transport.rate_limiter import RateLimiter
from faultline.connectors.shared.vendor_text import unexpected_response


class DriverSession(Protocol):
    """A connection for one collection."""

    async def connect(self) -> None:
        """Log in. Raises ConnectorError, BudgetExceeded."""

    async def close(self) -> None:
        """Log out."""


E = TypeVar("E", bound=Exception)
S = TypeVar("S", bound=DriverSession)
T = TypeVar("T")


@asynccontextmanager
async def logged_in(session: S) -> AsyncIterator[S]:
    """The session, from log-in to log-out. Raises ConnectorError, BudgetExceeded."""
    try:
        await session.connect()
        yield session
    # Log out even on failure: a connection left open counts against the server's limit.
    finally:
        await session.close()


@asynccontextmanager
async def permitted_call(
    limiter: RateLimiter,
    deadline: Deadline,
    errors: tuple[type[E], ...],
    problem: Callable[[E], tuple[ConnectorError, bool]],
) -> AsyncIterator[None]:
    """One permit, within the deadline. `problem` says what one of the driver's errors is to us, and
    whether the server failed. Raises ConnectorError, BudgetExceeded."""
    async with limiter.permit(deadline):
        try:
            async with asyncio.timeout(deadline.remaining):
                yield
        except TimeoutError:
            # A server that is silent counts as failed, so that other calls stop waiting for it.
            limiter.breaker.record(failed=True, why="no answer in time")
            raise BudgetExceeded("time", f"{deadline.seconds:g} s") from None
        except errors as error:
            connector_error, failed = problem(error)
            limiter.breaker.record(failed=failed, why=connector_error.problem)
            raise connector_error from error
        limiter.breaker.record(failed=False)


def values_of(
    vendor: str, call: str, rows: Iterable[Mapping[str, object]], type: type[T]
) -> list[T]:
    """Each row as `type`. Raises ConnectorError.

    Names become lower case: MySQL shows those of its schemas in upper case. Texts come as bytes
    from a database without an encoding, such as PostgreSQL's SQL_ASCII.
    """
    read = []
    for row in rows:
        read.append({name.lower(): _text(value) for name, value in row.items()})
    try:
        return msgspec.convert(read, type=list[type], strict=True)  # type: ignore[valid-type]
    except msgspec.ValidationError as error:
        raise unexpected_response(vendor, call, error) from error


def _text(value: object) -> object:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
