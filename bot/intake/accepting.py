"""What every alert source hands over, and how the store accepts it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy.exc import OperationalError, SQLAlchemyError

from analysis.errors import FaultlineError
from bot.intake.waiting_alerts import WaitingAlerts
from bot.runtime.arrivals import alert_taken
from bot.runtime.threads import in_store
from bot.settings import Settings
from bot.store.replays import first_time
from bot.store.store import Accepted, Arrival, Delivery, Store

Accept = Callable[[Arrival], Awaitable[Accepted]]
"""Take one alert. May raise NotAccepted; then the sender shall retry."""

FirstTime = Callable[[Delivery], Awaitable[bool]]
"""Remember a delivery that is no alert; whether it is new. May raise NotAccepted."""

Batch = Sequence[tuple[Arrival, asyncio.Future[Accepted]]]

MAX_WAITING = 1_000
"""Alerts waiting for the store at once; a store that stands still must not fill the memory."""
MAX_TOGETHER = 64
"""Alerts written in one transaction."""

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


def store_accept(store: Store) -> Accept:
    """Accept into the store: whatever waits while a transaction is written goes into the next one
    together.

    A caller that gives up waiting does not undo work that is begun; what is not begun by then is
    left.
    """
    waiting = WaitingAlerts(MAX_WAITING)
    writer: asyncio.Task[None] | None = None

    async def store_together(batch: Batch) -> None:
        try:
            accepted = await in_store(store.accept_all, [arrival for arrival, _ in batch])
        except Exception as error:  # noqa: BLE001  the edge of the store: every sender needs a response
            # With a database that works, one alert of them cannot be stored: the others can.
            if len(batch) > 1 and not isinstance(error, OperationalError):
                for one in batch:
                    await store_together([one])
                return
            log.error("%d alerts were not stored: %s", len(batch), type(error).__name__)
            _settle(batch, NotAccepted(f"the store cannot be written ({type(error).__name__})"))
        else:
            _settle(batch, accepted)

    async def write() -> None:
        nonlocal writer
        try:
            while waiting:
                batch = [waiting.popleft() for _ in range(min(len(waiting), MAX_TOGETHER))]
                # A sender that got a 503 meanwhile sends again. Storing that alert twice would only
                # lengthen the queue.
                awaited = [one for one in batch if not one[1].done()]
                if awaited:
                    await store_together(awaited)
        finally:
            writer = None

    async def accept(arrival: Arrival) -> Accepted:
        nonlocal writer
        settled: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        if (dropped := waiting.put(arrival, settled)) is not None:
            full = f"{MAX_WAITING} alerts are already waiting for the store"
            _settle([dropped], NotAccepted(full))
        if writer is None:
            writer = asyncio.create_task(write())
        return await settled

    return accept


def _settle(batch: Batch, outcome: Sequence[Accepted] | NotAccepted) -> None:
    for number, (_, settled) in enumerate(batch):
        if settled.done():
            continue
        if isinstance(outcome, NotAccepted):
            settled.set_exception(outcome)
        else:
            settled.set_result(outcome[number])
