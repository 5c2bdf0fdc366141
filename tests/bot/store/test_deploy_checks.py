"""Checks of deploys and watched services, on both databases: each look is one worker's."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from faultline.bot.store.changes import LEASE, DeployChecks, StoredCheck, Watches
from faultline.bot.store.store import Store

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
EVERY = timedelta(minutes=10)


def check(name: str = "one", due_at: datetime | None = NOW) -> StoredCheck:
    return StoredCheck(name, {"service": "checkout"}, "", "ann", NOW, due_at, 0, None)


def test_a_check_is_taken_once(store: Store, reopen: Callable[[], Store]) -> None:
    assert DeployChecks(store.engine).add(check())
    assert not DeployChecks(reopen().engine).add(check())


def test_of_many_workers_one_gets_a_look(store: Store, reopen: Callable[[], Store]) -> None:
    DeployChecks(store.engine).add(check())
    workers = [DeployChecks(reopen().engine) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        claimed = list(pool.map(lambda one: one.claim(NOW), workers))
    assert [one.id for one in claimed if one is not None] == ["one"]


def test_a_worker_that_died_loses_its_look_to_another(store: Store) -> None:
    checks = DeployChecks(store.engine)
    checks.add(check())
    assert checks.claim(NOW) is not None
    assert checks.claim(NOW + timedelta(minutes=1)) is None
    assert checks.claim(NOW + LEASE + timedelta(seconds=1)) is not None


def test_a_look_is_kept_and_the_next_one_comes_when_it_is_due(store: Store) -> None:
    checks = DeployChecks(store.engine)
    checks.add(check())
    checks.claim(NOW)
    checks.record_look("one", 2, {"decision": "hold"}, NOW + EVERY)
    assert checks.claim(NOW) is None
    again = checks.claim(NOW + EVERY)
    assert again is not None
    assert (again.looks_done, again.verdict) == (2, {"decision": "hold"})
    checks.record_look("one", 1, {"decision": "late"}, NOW)
    checks.record_look("one", 5, {"decision": "go"}, None)
    ended = checks.get("one")
    assert ended is not None
    assert (ended.verdict, ended.due_at) == ({"decision": "go"}, None)
    assert checks.claim(NOW + timedelta(days=1)) is None


def test_of_many_workers_one_gets_a_watch(store: Store, reopen: Callable[[], Store]) -> None:
    Watches(store.engine).keep(["checkout"], NOW)
    workers = [Watches(reopen().engine) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        claimed = list(pool.map(lambda one: one.claim(["checkout"], NOW), workers))
    assert sum(one is not None for one in claimed) == 1


def test_a_watch_keeps_its_state_and_one_that_is_not_configured_is_left_alone(
    store: Store,
) -> None:
    watches = Watches(store.engine)
    watches.keep(["checkout", "cart"], NOW)
    watches.keep(["checkout"], NOW + EVERY)
    found = watches.claim(["checkout"], NOW)
    assert found is not None
    watches.record_look(
        found, worse_in_a_row=1, alerted=True, headline="slow", now=NOW, every=EVERY
    )
    assert watches.claim(["checkout"], NOW) is None
    states = {one.name: one for one in watches.states()}
    assert (states["checkout"].worse_in_a_row, states["checkout"].alerted) == (1, True)
    assert states["checkout"].due_at == NOW + EVERY
    # A look of before this one, by a worker that was held up.
    watches.record_look(found, worse_in_a_row=9, alerted=False, headline="", now=NOW, every=EVERY)
    assert {one.name: one for one in watches.states()}["checkout"].alerted
    assert states["cart"].checked_at is None
