"""The record of captures, on both databases: who may ask a job next, and what is remembered."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from faultline.bot.store.follow_ups import LONGEST_CAPTURE, CaptureBudget, CaptureClaim, CaptureLog
from faultline.bot.store.store import Store

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BUDGET = CaptureBudget(timedelta(minutes=30), 3)


def claim(
    store: Store, minutes: float = 0, job: str = "llm", budget: CaptureBudget = BUDGET
) -> CaptureClaim:
    return CaptureLog(store.engine).claim(
        job,
        requested_by="test",
        requested="0.5 s",
        hosts="a, b",
        budget=budget,
        now=NOW + timedelta(minutes=minutes),
    )


def finished(store: Store, claimed: CaptureClaim, *, counts: bool = True) -> None:
    CaptureLog(store.engine).finish(
        claimed.id, "recorded" if counts else "refused", result="2 files", counts=counts
    )


def test_the_cool_down_holds_across_processes_and_ends(
    store: Store, reopen: Callable[[], Store]
) -> None:
    finished(store, claim(store))
    assert (
        claim(reopen(), 29).refusal == "its last capture began 29 min ago; 1 min of cool-down left"
    )
    assert claim(reopen(), 29, job="other").refusal is None
    assert claim(reopen(), 31).refusal is None


def test_a_capture_that_asked_no_machine_costs_no_cool_down(store: Store) -> None:
    finished(store, claim(store), counts=False)
    assert claim(store, 1).refusal is None


def test_a_refused_one_prolongs_nothing(store: Store) -> None:
    finished(store, claim(store))
    assert claim(store, 20).refusal is not None
    assert claim(store, 31).refusal is None


def test_no_more_than_so_many_a_day(store: Store) -> None:
    for minutes in (0, 60, 120):
        finished(store, claim(store, minutes))
    assert (
        claim(store, 180).refusal
        == "3 captures in the last 24 hours, and no more than 3 are allowed"
    )
    assert claim(store, 24 * 60 + 1).refusal is None


def test_of_two_workers_at_once_one_gets_it(store: Store, reopen: Callable[[], Store]) -> None:
    stores = [reopen() for _ in range(8)]
    budget = CaptureBudget(timedelta(0), 100)
    with ThreadPoolExecutor(8) as workers:
        claims = list(workers.map(lambda one: claim(one, budget=budget), stores))
    assert sum(c.refusal is None for c in claims) == 1
    assert all("has not ended yet" in c.refusal for c in claims if c.refusal)


def test_one_whose_process_died_does_not_block_for_ever(store: Store) -> None:
    claim(store)
    assert claim(store, 60).refusal is not None
    assert claim(store, LONGEST_CAPTURE.total_seconds() / 60 + 1).refusal is None


def test_a_clock_set_back_opens_no_gate(store: Store) -> None:
    finished(store, claim(store))
    assert claim(store, -5).refusal is not None


def test_every_one_that_was_asked_for_is_remembered(store: Store) -> None:
    finished(store, claim(store))
    claim(store, 1)
    newest, oldest = CaptureLog(store.engine).history("llm")
    assert (oldest.status, oldest.requested_by, oldest.hosts, oldest.result) == (
        "recorded",
        "test",
        "a, b",
        "2 files",
    )
    assert (newest.status, newest.counts) == ("refused", False)
    assert oldest.requested_at == NOW
    assert CaptureLog(store.engine).history("other") == []
