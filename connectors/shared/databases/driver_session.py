"""What connectors share that ask by a driver or a protocol instead of HTTP: a connection for one
collection, one permit for each call, within the deadline, errors as ours, rows as values."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import ClassVar, Self, TypeVar

import msgspec

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import Deadline
from faultline.connectors.shared.transport.rate_limiter import rate_limiter_of
from faultline.connectors.shared.vendor_text import unexpected_response

T = TypeVar("T")


class DriverSession:
    """A connection for one collection, whose calls go one after the other. A vendor says how it
    connects, which errors its driver raises and what they are to us."""

    vendor: ClassVar[str]
    errors: ClassVar[tuple[type[Exception], ...]]
    """The driver's."""

    def __init__(self, address: str, limits: Limits) -> None:
        self.address = address
        self.deadline = Deadline.within(limits)
        self._limiter = rate_limiter_of(self.vendor, address, limits)

    async def connect(self) -> None:
        """Log in. Raises ConnectorError, BudgetExceeded."""

    async def close(self) -> None:
        """Log out."""
        raise NotImplementedError

    def problem(self, call: str, error: Exception) -> ConnectorError:
        """One of the driver's errors as ours: `retryable` where the server failed, not the call."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        try:
            await self.connect()
        # Log out even on failure: a connection left open counts against the server's limit.
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def label(self, call: str) -> str:
        """The call as evidence names it: where it was sent, and on one line."""
        return f"{self.address}: {' '.join(call.split())}"

    @asynccontextmanager
    async def permitted(self, call: str) -> AsyncIterator[None]:
        """One permit, within the deadline. Raises ConnectorError, BudgetExceeded."""
        limiter, deadline = self._limiter, self.deadline
        async with limiter.permit(deadline):
            try:
                async with asyncio.timeout(deadline.remaining):
                    yield
            except TimeoutError:
                # A server that is silent counts as failed, so that other calls stop waiting for it.
                limiter.breaker.record(failed=True, why="no answer in time")
                raise deadline.exceeded() from None
            except self.errors as error:
                ours = self.problem(call, error)
                limiter.breaker.record(failed=ours.retryable, why=ours.problem)
                raise ours from error
            limiter.breaker.record(failed=False)

    async def in_thread(self, call: str, function: Callable[[], T]) -> T:
        """What a blocking driver gives. Raises ConnectorError, BudgetExceeded."""
        async with self.permitted(call):
            return await asyncio.to_thread(function)


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
