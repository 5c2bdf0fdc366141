"""From the store to the engine: no more than the workers can take, the urgent first, fair between
teams, each once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.admission import Policy
from faultline.bot.policy.services import Teams
from faultline.bot.queue.dispatch import FairDispatch
from faultline.bot.queue.engine_database import INVESTIGATIONS, URGENT_INVESTIGATIONS, system_engine
from faultline.bot.queue.executor_locks import AdvisoryLocks, ExecutorLocks, FileLocks
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import AlertSettings
from faultline.bot.settings.people import TeamSettings
from faultline.bot.store.store import ReplyTo, Store
from faultline.bot.store.tables import InvestigationRow
from faultline.connectors.shared.settings.shared_settings import ServiceSettings

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
MANY = 40
"""More than twice what two workers may have in hand."""
TEAMS = {"shop": TeamSettings(services=("checkout",)), "find": TeamSettings(services=("search",))}
SETTINGS = Settings(
    teams=TEAMS,
    services={"checkout": ServiceSettings(), "search": ServiceSettings()},
    alerts=AlertSettings(groups="off"),
)


class Queued:
    """What the engine would hold, with the real locks of several workers."""

    def __init__(self, locks: ExecutorLocks, workers: int = 1) -> None:
        self.given: list[tuple[str, str]] = []
        self.ended: set[str] = set()
        self._locks = locks
        self._workers = workers
        self.largest = 0

    def enqueue(self, investigation_id: str, queue: str = INVESTIGATIONS) -> None:
        time.sleep(0.001)
        if (investigation_id, queue) not in self.given:
            self.given.append((investigation_id, queue))
        self.largest = max(self.largest, len(self.in_hand(INVESTIGATIONS)))

    def in_hand(self, queue: str) -> list[str]:
        return [name for name, where in self.given if where == queue and name not in self.ended]

    def workers(self) -> int:
        return self._workers

    def exclusive(self, lock: str) -> AbstractContextManager[bool]:
        return self._locks.exclusive(lock)


@pytest.fixture
def new_locks(database_url: str, tmp_path: Path) -> Iterator[Callable[[], ExecutorLocks]]:
    """The locks of one more worker."""
    engine = system_engine(database_url)
    made: list[ExecutorLocks] = []

    def new() -> ExecutorLocks:
        made.append(
            FileLocks(tmp_path) if database_url.startswith("sqlite") else AdvisoryLocks(engine)
        )
        return made[-1]

    yield new
    for one in made:
        one.release()
    engine.dispose()


@pytest.fixture
def locks(new_locks: Callable[[], ExecutorLocks]) -> ExecutorLocks:
    return new_locks()


@pytest.fixture
def filled(store: Store) -> Store:
    """Many alerts of one team, then one of the other, then an urgent one."""
    store = Store(store.engine, policy=Policy.of(SETTINGS))
    for number in range(MANY):
        accept(store, f"slow {number}", "checkout", at=number)
    accept(store, "lonely", "search", at=200)
    accept(store, "down", "checkout", at=300, severity="P1")
    return store


def accept(store: Store, title: str, service: str, *, at: int, severity: str | None = None) -> str:
    alert = Alert(source="t", title=title, service=service, started_at=NOW, severity=severity)
    now = datetime.now(UTC) - timedelta(seconds=400 - at)
    return store.accept(alert, reply_to=ReplyTo("C1"), now=now).investigation_id or ""


def dispatch(store: Store, engine: Queued) -> FairDispatch:
    return FairDispatch(store, engine, Teams.of(SETTINGS), concurrency=8, every_s=0.05, cores=8)


def titles(store: Store, ids: list[str]) -> list[str]:
    return [one.alert.title for one in store.some(ids)]


def test_the_engine_gets_what_the_workers_can_take_and_the_rest_waits(
    filled: Store, locks: ExecutorLocks
) -> None:
    engine = Queued(locks)
    assert dispatch(filled, engine).dispatch() == 10
    assert titles(filled, engine.in_hand(URGENT_INVESTIGATIONS)) == ["down"]
    usual = titles(filled, engine.in_hand(INVESTIGATIONS))
    assert (len(usual), usual[0], usual[1]) == (9, "lonely", "slow 0")
    assert dispatch(filled, engine).dispatch() == 0, "nothing has ended"
    assert len(filled.undispatched(500)) == MANY + 2 - 10
    engine.ended.update(engine.in_hand(INVESTIGATIONS)[:3])
    assert dispatch(filled, engine).dispatch() == 3


def test_what_waits_for_vendors_makes_room_for_others(filled: Store, locks: ExecutorLocks) -> None:
    engine = Queued(locks)
    small = FairDispatch(filled, engine, Teams.of(SETTINGS), concurrency=8, every_s=0.05, cores=2)
    assert small.dispatch() == 1 + 5
    begun = engine.in_hand(INVESTIGATIONS)
    began(filled, begun[:4], ago=timedelta(seconds=1))
    assert small.dispatch() == 0, "they collect"
    began(filled, begun[:4], ago=timedelta(seconds=4))
    assert small.dispatch() == 4, "their vendors are slow"
    for name in begun[:4]:
        filled.add_progress(name, "memory", "nothing alike", key="memory")
    assert small.dispatch() == 0, "they work again"
    began(filled, begun[:4], ago=timedelta(seconds=11))
    assert small.dispatch() == 0, "each needs a place, too"
    engine.ended.update(begun[:4])
    assert small.dispatch() == 0
    engine.ended.update(engine.in_hand(INVESTIGATIONS)[:2])
    assert small.dispatch() == 2


def began(store: Store, names: list[str], *, ago: timedelta) -> None:
    with Session(store.engine) as session, session.begin():
        rows = session.scalars(select(InvestigationRow).where(InvestigationRow.id.in_(names)))
        for row in rows:
            row.started_at = datetime.now(UTC) - ago


def test_an_urgent_alert_is_queued_though_everything_is_busy(
    filled: Store, locks: ExecutorLocks
) -> None:
    engine = Queued(locks)
    dispatch(filled, engine).dispatch()
    late = accept(filled, "also down", "search", at=399, severity="critical")
    assert dispatch(filled, engine).dispatch() == 1
    assert engine.given[-1] == (late, URGENT_INVESTIGATIONS)
    for number in range(3):
        accept(filled, f"more {number}", "search", at=399, severity="critical")
    assert dispatch(filled, engine).dispatch() == 0, "its own queue is bounded as well"
    engine.ended.add(engine.in_hand(INVESTIGATIONS)[0])
    dispatch(filled, engine).dispatch()
    assert titles(filled, [engine.given[-1][0]]) == ["more 0"], "then the next free place is theirs"
    assert engine.given[-1][1] == INVESTIGATIONS


def test_several_workers_queue_each_once_and_keep_the_bound_together(
    filled: Store, locks: ExecutorLocks
) -> None:
    engine = Queued(locks, workers=2)
    workers = [dispatch(filled, engine) for _ in range(4)]
    until = time.monotonic() + 120

    def work(one: FairDispatch) -> None:
        while time.monotonic() < until and len(engine.given) < MANY + 2:
            one.dispatch()
            for queue in (INVESTIGATIONS, URGENT_INVESTIGATIONS):
                engine.ended.update(engine.in_hand(queue)[:1])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, workers))
    assert Counter(name for name, _ in engine.given).most_common(1)[0][1] == 1
    assert len(engine.given) == MANY + 2
    assert engine.largest <= 2 * 9
    assert filled.undispatched(500) == []


def test_what_was_queued_right_before_a_crash_is_not_queued_twice(
    filled: Store, locks: ExecutorLocks
) -> None:
    engine = Queued(locks)
    first = dispatch(filled, engine)
    kept, filled.mark_dispatched = filled.mark_dispatched, lambda _ids: None  # type: ignore[method-assign,assignment]
    first.dispatch()
    filled.mark_dispatched = kept  # type: ignore[method-assign]
    again = Queued(locks)
    again.given = list(engine.given)
    dispatch(filled, again).dispatch()
    assert len(again.given) == len(set(again.given))


def test_workers_are_counted_by_the_locks_they_hold(new_locks: Callable[[], ExecutorLocks]) -> None:
    counting, first, second = new_locks(), new_locks(), new_locks()
    assert counting.live_executors() == 0
    first.hold("worker-a")
    second.hold("worker-b")
    assert counting.live_executors() == 2
    with counting.exclusive("dispatch") as mine, second.exclusive("dispatch") as theirs:
        assert (mine, theirs) == (True, False)
        assert counting.live_executors() == 2, "a duty is no worker"
    with second.exclusive("dispatch") as theirs:
        assert theirs
    first.release()
    assert counting.live_executors() == 1
    with counting.take_if_dead("worker-a") as dead, counting.take_if_dead("worker-b") as alive:
        assert (dead, alive) == (True, False)


def test_it_looks_often_only_while_something_waits_for_a_place(
    filled: Store, locks: ExecutorLocks
) -> None:
    dispatch = FairDispatch(
        filled,
        Queued(locks),
        Teams.of(SETTINGS),
        concurrency=8,
        every_s=600,
        rest_s=0.05,
        cores=8,
    )
    dispatch.turn()
    assert dispatch.every_s == 0.05
    filled.mark_dispatched(filled.undispatched(1000))
    dispatch.turn()
    assert dispatch.every_s == 600
