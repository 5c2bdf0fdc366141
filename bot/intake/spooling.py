"""Takes an alert into the database, or, where that has not happened within a second, into the
host's spool."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

from faultline.bot.intake.accepting import NotAccepted, NotStorable, StoreWriter
from faultline.bot.intake.spool import Spool, SpoolError
from faultline.bot.intake.spool_records import TakenAlert
from faultline.bot.policy.values import Accepted, Arrival, Delivery

STORE_WITHIN_S = 1.0
"""Senders wait 3 s (Slack) to 10 s. What a healthy database needs is some milliseconds."""
MAX_TOGETHER = 1_000
"""Alerts that one fsync keeps."""
SPOOLED = Accepted("spooled", None)

log = logging.getLogger("faultline.spool")

Waiting = tuple[TakenAlert, asyncio.AbstractEventLoop, asyncio.Future[None]]


class SpoolingAccept:
    """`Accept`, with a spool behind the store."""

    def __init__(
        self,
        writer: StoreWriter,
        spool: Spool,
        *,
        within_s: float = STORE_WITHIN_S,
    ) -> None:
        self._writer = writer
        self._spool = spool
        self._appender = _Appender(spool)
        self._within_s = within_s

    async def __call__(self, arrival: Arrival) -> Accepted:
        """Take one alert. Raises NotAccepted where neither takes it."""
        # With a made-up delivery where its sender names none: by that a second way into the
        # database is recognised.
        if arrival.delivery is not None:
            identified = arrival
        else:
            identified = replace(arrival, delivery=Delivery("taken", uuid4().hex))
        taken = TakenAlert(identified, datetime.now(UTC))
        if not self._store_is_behind():
            with contextlib.suppress(TimeoutError):
                try:
                    async with asyncio.timeout(self._within_s):
                        return await self._writer(taken.arrival)
                except NotStorable:
                    raise
                except NotAccepted:
                    pass
        await self._appender.append(taken)
        return SPOOLED

    def _store_is_behind(self) -> bool:
        """Whether earlier alerts wait for the store: then a later one goes behind them, at once."""
        return not self._spool.is_empty() or self._writer.writes_for_s() > self._within_s


class _Appender:
    """Puts whatever waits into the spool together. Its thread hangs where the disk does; then
    senders are asked to come back."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._waiting: queue.SimpleQueue[Waiting] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def append(self, taken: TakenAlert) -> None:
        """Keep one alert. Raises NotAccepted."""
        if self._waiting.qsize() >= MAX_TOGETHER:
            raise NotAccepted(f"{MAX_TOGETHER} alerts are already waiting for the spool")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="spool", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.put((taken, loop, future))
        try:
            await future
        except SpoolError as error:
            raise NotAccepted(str(error)) from error

    def _run(self) -> None:
        while True:
            batch = [self._waiting.get()]
            with contextlib.suppress(queue.Empty):
                while len(batch) < MAX_TOGETHER:
                    batch.append(self._waiting.get_nowait())
            awaited = [waiter for waiter in batch if not waiter[2].done()]
            outcomes = self._append([taken for taken, _, _ in awaited])
            for (_, loop, future), outcome in zip(awaited, outcomes, strict=True):
                # The server may have stopped meanwhile.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(_settle, future, outcome)

    def _append(self, batch: Sequence[TakenAlert]) -> Sequence[SpoolError | None]:
        try:
            return self._spool.append(batch)
        # The edge of the thread: it must outlive what nobody thought of, and senders need a
        # response.
        except Exception as error:
            log.exception("alerts were not spooled")
            return [SpoolError(f"the spool failed ({type(error).__name__})")] * len(batch)


def _settle(future: asyncio.Future[None], outcome: SpoolError | None) -> None:
    if future.done():
        return
    if outcome is None:
        future.set_result(None)
    else:
        future.set_exception(outcome)
