"""What every alert source hands over, and how the store accepts it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    SQLAlchemyError,
    StatementError,
)

from faultline.analysis.errors import FaultlineError
from faultline.bot.intake.waiting_alerts import WaitingAlerts
from faultline.bot.runtime.instrumentation import alert_taken
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings
from faultline.bot.store.admission_state import IncidentBusy, first_time
from faultline.bot.store.store import Accepted, Arrival, Delivery, Store

Accept = Callable[[Arrival], Awaitable[Accepted]]
"""Take one alert. May raise NotAccepted; then the sender shall retry."""

FirstTime = Callable[[Delivery], Awaitable[bool]]
"""Remember a delivery that is no alert; whether it is new. May raise NotAccepted."""

Batch = Sequence[tuple[Arrival, asyncio.Future[Accepted]]]

MAX_WAITING = 1_000
"""Alerts waiting for the store at once; a store that stands still must not fill the memory."""
MAX_TOGETHER = 64
"""Alerts written in one transaction."""
BETWEEN_S = 0.005
"""Between two transactions on SQLite, whose one lock would else be free for no moment in a storm:
the workers look for it every 2 ms (`faultline.bot.store.connections`)."""

log = logging.getLogger("faultline.intake")


@dataclass(frozen=True)
class Ignored:
    """A genuine delivery that starts nothing, and why."""

    reason: str


def too_old(at: datetime | None, settings: Settings, now: datetime) -> Ignored | None:
    """Why a delivery of that time starts nothing, however genuine: vendors try again for hours, not
    for days."""
    return _before(at, settings.alerts.oldest_days, "alerts.oldest_days", now)


def forgotten(at: datetime | None, settings: Settings, now: datetime) -> Ignored | None:
    """Why a delivery of that time starts nothing: whether it came before is not remembered for so
    long."""
    return _before(at, settings.retention.deliveries_days, "retention.deliveries_days", now)


def _before(at: datetime | None, days: float, setting: str, now: datetime) -> Ignored | None:
    if at is None or now - at <= timedelta(days=days):
        return None
    return Ignored(f"it is of {at:%Y-%m-%d}, more than {days:g} days ago ({setting})")


@dataclass(frozen=True)
class IntakeLimits:
    """What one delivery may take. PagerDuty waits 5 s and Slack 3 s for the answer, Alertmanager at
    least 10 s."""

    max_body_bytes: int = 1_048_576
    body_within_s: float = 5.0
    accept_within_s: float = 2.0
    group_within_s: float = 8.0
    """From the request on. No further alerts of a grouped notification are begun after this; the
    rest comes with the sender's retry."""


class NotAccepted(FaultlineError):
    """The alert could not be stored in time. Nothing is lost: the response asks the sender to
    send it again."""


class NotStorable(NotAccepted):
    """The database works, and refuses this alert for what it holds."""


async def take(accept: Accept, arrival: Arrival, *, within_s: float) -> Accepted:
    """Accept one alert within a limit in seconds. Raises NotAccepted."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(within_s):
            accepted = await accept(arrival)
    except TimeoutError:
        raise NotAccepted(f"the store did not answer within {within_s:g} s") from None
    alert_taken(arrival.alert.source, accepted, time.monotonic() - began)
    return accepted


def store_first_time(store: Store, *, within_s: float = 2.0) -> FirstTime:
    """Remember in the store."""

    async def remember(delivery: Delivery) -> bool:
        try:
            async with asyncio.timeout(within_s):
                return await in_store(first_time, store.engine, delivery, datetime.now(UTC))
        except TimeoutError:
            raise NotAccepted(f"the store did not answer within {within_s:g} s") from None
        except SQLAlchemyError as error:
            raise NotAccepted(f"the store cannot be used ({type(error).__name__})") from error

    return remember


class StoreWriter:
    """Accepts into the store: whatever waits while a transaction is written goes into the next one
    together.

    A caller that gives up waiting does not undo work that is begun; what is not begun by then is
    left.
    """

    def __init__(self, store: Store, written: Callable[[], None] = lambda: None) -> None:
        """`written` is called after each transaction that was committed."""
        self._store = store
        self._written = written
        self._waiting = WaitingAlerts(MAX_WAITING)
        self._writer: asyncio.Task[None] | None = None
        self._began: float | None = None
        self._between_s = BETWEEN_S if store.engine.dialect.name == "sqlite" else 0.0

    async def __call__(self, arrival: Arrival) -> Accepted:
        """Take one alert. Raises NotAccepted; NotStorable where that is for what the alert
        holds."""
        settled: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        if (dropped := self._waiting.put(arrival, settled)) is not None:
            full = f"{MAX_WAITING} alerts are already waiting for the store"
            _settle([dropped], NotAccepted(full))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        return await settled

    def writes_for_s(self) -> float:
        """How long the transaction that is written now has taken; 0 where none is."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    async def _write(self) -> None:
        try:
            while self._waiting:
                most = min(len(self._waiting), MAX_TOGETHER)
                batch = [self._waiting.popleft() for _ in range(most)]
                # A sender that got its answer meanwhile needs this no more. Storing that alert
                # twice would only lengthen the queue.
                awaited = [waiter for waiter in batch if not waiter[1].done()]
                if awaited:
                    await self._store_together(awaited)
                    # `writes_for_s` measures the transaction, not the pause after it.
                    self._began = None
                    await asyncio.sleep(self._between_s)
        finally:
            self._writer = self._began = None

    async def _store_together(self, batch: Batch) -> None:
        self._began = time.monotonic()
        try:
            accepted = await in_store(self._store.accept_all, [arrival for arrival, _ in batch])
        except IncidentBusy as busy:
            # Only alerts of a busy incident are sent again: the rest of the batch is stored now.
            _settle([batch[place] for place in busy.blocked], NotAccepted(str(busy)))
            free = [waiter for place, waiter in enumerate(batch) if place not in busy.blocked]
            if free and busy.blocked:
                await self._store_together(free)
        except Exception as error:  # noqa: BLE001  the edge of the store: every sender needs a response
            phrase = f"the store cannot be written ({type(error).__name__})"
            if not is_fault_of_alert(error):
                log.error("%d alerts were not stored: %s", len(batch), type(error).__name__)
                _settle(batch, NotAccepted(phrase))
            elif len(batch) > 1:
                # One alert of them cannot be stored: the others can.
                for waiter in batch:
                    await self._store_together([waiter])
            else:
                log.error("an alert cannot be stored: %s", type(error).__name__)
                _settle(batch, NotStorable(phrase))
        else:
            self._written()
            _settle(batch, accepted)


store_accept = StoreWriter


def is_fault_of_alert(error: Exception) -> bool:
    """Whether a failure of the store is due to what an alert holds: a database that works refuses
    it again, and takes the others."""
    # Test DBAPIError first: it is a StatementError, too, but mostly means a failing database.
    if isinstance(error, DBAPIError):
        return isinstance(error, DataError | IntegrityError) and not error.connection_invalidated
    if isinstance(error, SQLAlchemyError):
        return isinstance(error, StatementError)
    return not isinstance(error, OSError | IncidentBusy)


def _settle(batch: Batch, outcome: Sequence[Accepted] | NotAccepted) -> None:
    for number, (_, settled) in enumerate(batch):
        # A sender that timed out cancelled its future, which takes no result.
        if settled.done():
            continue
        if isinstance(outcome, NotAccepted):
            settled.set_exception(outcome)
        else:
            settled.set_result(outcome[number])
