"""From the store to the engine's queue, in the worker: the web process accepts alerts and does
nothing else.

The engine is given no more investigations than the workers can take soon: in the store they can
still be overtaken.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Protocol

from faultline.bot.policy.priority import URGENT
from faultline.bot.policy.services import Teams
from faultline.bot.queue.backlog import (
    Capacity,
    any_waiting,
    busy,
    in_order,
    next_per_team,
    taken_by_team,
)
from faultline.bot.queue.engine_database import ENGINE_ERRORS, INVESTIGATIONS, URGENT_INVESTIGATIONS
from faultline.bot.runtime.components import BackgroundLoop
from faultline.bot.store.store import Store

BATCH = 100


class Accepting(Protocol):
    """What was stored by the web process and waits for the engine: investigations, or questions."""

    def undispatched(self, limit: int) -> Sequence[str]:
        """Ids of what may be queued now."""

    def mark_dispatched(self, ids: Sequence[str]) -> None:
        """Remember that the engine has them."""


class Dispatch(BackgroundLoop):
    """Puts on a queue what was accepted. Several workers may do so at once: an id is queued
    once."""

    expected_errors = ENGINE_ERRORS

    def __init__(
        self,
        store: Accepting,
        enqueue: Callable[[str], None],
        *,
        every_s: float,
        rest_s: float = 0.0,
    ) -> None:
        super().__init__(
            "dispatch",
            every_s=every_s,
            rest_s=rest_s,
            part=f"dispatch of {type(store).__name__.lower()}",
        )
        self._store = store
        self._enqueue = enqueue

    def dispatch(self) -> int:
        """Queue what has been accepted; returns how many."""
        ids = self._store.undispatched(BATCH)
        for investigation_id in ids:
            self._enqueue(investigation_id)
        if ids:
            self._store.mark_dispatched(ids)
        return len(ids)

    def turn(self) -> bool:
        """Dispatch; whether there may be more."""
        return self.dispatch() == BATCH


class Queues(Protocol):
    """The part of the engine that handing investigations over needs."""

    def enqueue(self, investigation_id: str, queue: str = INVESTIGATIONS) -> None:
        """Queue one; the same id again changes nothing."""

    def in_hand(self, queue: str) -> Sequence[str]:
        """Investigations that are queued there, or run from there."""

    def workers(self) -> int:
        """How many workers live."""

    def exclusive(self, lock: str) -> AbstractContextManager[bool]:
        """Yields whether no other worker does this duty just now."""


class FairDispatch(Dispatch):
    """Hands investigations over as places become free: one worker at a time, so that together they
    keep the bound."""

    LOCK = "dispatch"

    def __init__(
        self,
        store: Store,
        engine: Queues,
        teams: Teams,
        *,
        concurrency: int,
        every_s: float,
        rest_s: float = 0.0,
        cores: int | None = None,
    ) -> None:
        super().__init__(store, engine.enqueue, every_s=every_s, rest_s=rest_s)
        self._investigations = store
        self._engine = engine
        self._teams = teams
        self._concurrency = concurrency
        self._cores = cores or len(os.sched_getaffinity(0))
        # A place that becomes free changes nothing in the store.
        self._waiting_s, self._idle_s = rest_s or every_s, every_s

    def dispatch(self) -> int:
        """Queue as many as there is capacity for, the most urgent first; returns how many."""
        # Look before locking: with nothing waiting, a turn costs one read.
        waiting = any_waiting(self._investigations.engine)
        self.every_s = self._waiting_s if waiting else self._idle_s
        if not waiting:
            return 0
        with self._engine.exclusive(self.LOCK) as mine:
            if not mine:
                return 0
            return self._fill_queues(datetime.now(UTC))

    def _fill_queues(self, now: datetime) -> int:
        database = self._investigations.engine
        urgent_taken = self._engine.in_hand(URGENT_INVESTIGATIONS)
        usual_taken = self._engine.in_hand(INVESTIGATIONS)
        capacity = self._capacity(urgent_taken, usual_taken, now)
        if not capacity.any:
            return 0
        waiting = next_per_team(database, capacity.urgent + capacity.usual)
        by_team = taken_by_team(database, [*urgent_taken, *usual_taken])
        share = self._teams.share

        urgent_waiting = [candidate for candidate in waiting if candidate.priority == URGENT]
        urgent = in_order(urgent_waiting, by_team, share, now, most=capacity.urgent)
        # Urgent ones count against their team's share of the usual slots.
        by_team.update(candidate.team for candidate in urgent)

        # Urgent ones that got no urgent slot compete for the usual slots.
        ids = {candidate.id for candidate in urgent}
        rest = [candidate for candidate in waiting if candidate.id not in ids]
        usual = in_order(rest, by_team, share, now, most=capacity.usual)

        for candidate in urgent:
            self._engine.enqueue(candidate.id, URGENT_INVESTIGATIONS)
        for candidate in usual:
            self._engine.enqueue(candidate.id, INVESTIGATIONS)
        # Marked after queueing: a crash in between queues the same ids again, which changes
        # nothing.
        self._investigations.mark_dispatched([candidate.id for candidate in (*urgent, *usual)])
        return len(urgent) + len(usual)

    def _capacity(
        self, urgent_taken: Sequence[str], usual_taken: Sequence[str], now: datetime
    ) -> Capacity:
        return Capacity.of(
            concurrency=self._concurrency,
            workers=self._engine.workers(),
            urgent_taken=len(urgent_taken),
            usual_taken=len(usual_taken),
            usual_busy=busy(self._investigations.engine, usual_taken, now),
            cores=self._cores,
        )
