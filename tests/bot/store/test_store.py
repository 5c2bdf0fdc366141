"""The store, on SQLite and on PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.orm import Session

from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.values import Accepted, Arrival
from faultline.bot.store.admission_state import IncidentBusy
from faultline.bot.store.store import Delivery, ReplyTo, Store
from faultline.bot.store.tables import PostRow

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
ALERT = Alert(
    source="pagerduty", title="checkout p99 above 800 ms", started_at=NOW, service="checkout"
)


def test_a_first_alert_starts_an_investigation(store: Store) -> None:
    accepted = store.accept(ALERT, reply_to=ReplyTo(pagerduty_incident="P1"), now=NOW)
    assert accepted.outcome == "started"
    investigation = store.get(accepted.investigation_id or "")
    assert investigation is not None
    assert investigation.alert == ALERT
    assert investigation.status == "accepted"
    assert investigation.reply_to.pagerduty_incident == "P1"
    assert investigation.accepted_at == NOW


def test_the_same_delivery_again_is_a_duplicate(store: Store) -> None:
    first = store.accept(ALERT, delivery=Delivery("pagerduty", "d1"))
    again = store.accept(ALERT, delivery=Delivery("pagerduty", "d1"))
    assert (again.outcome, again.investigation_id) == ("duplicate", first.investigation_id)
    assert store.count() == 1


def test_a_repeat_of_an_open_alert_joins_its_investigation(store: Store) -> None:
    first = store.accept(ALERT, delivery=Delivery("pagerduty", "d1"))
    again = store.accept(ALERT, delivery=Delivery("pagerduty", "d2"))
    assert (again.outcome, again.investigation_id) == ("joined", first.investigation_id)
    investigation = store.get(first.investigation_id or "")
    assert investigation is not None
    assert investigation.repeats == 1


def test_after_its_resolution_the_same_alert_starts_a_new_investigation(store: Store) -> None:
    first = store.accept(ALERT)
    resolved = store.accept(ALERT.model_copy(update={"status": "resolved"}))
    assert (resolved.outcome, resolved.investigation_id) == ("resolved", first.investigation_id)
    assert store.accept(ALERT).outcome == "started"
    assert store.count() == 2


def test_a_resolution_of_an_unknown_alert_starts_nothing(store: Store) -> None:
    resolved = store.accept(ALERT.model_copy(update={"status": "resolved"}))
    assert (resolved.outcome, resolved.investigation_id) == ("resolved", None)
    assert store.count() == 0


def test_an_alert_open_for_longer_than_the_join_time_is_investigated_again(store: Store) -> None:
    store.accept(ALERT, now=NOW)
    later = store.accept(ALERT, now=NOW + timedelta(hours=13))
    assert later.outcome == "started"
    assert store.count() == 2


def test_twenty_simultaneous_deliveries_of_one_alert_start_one_investigation(store: Store) -> None:
    def sent_until_taken(number: int) -> str:
        # On a busy machine one may wait for longer than the store does; its sender comes back.
        for _ in range(20):
            try:
                return store.accept(ALERT, delivery=Delivery("a", str(number))).outcome
            except IncidentBusy:
                time.sleep(0.2)
        raise AssertionError("it was never taken")

    with ThreadPoolExecutor(20) as pool:
        outcomes = list(pool.map(sent_until_taken, range(20)))
    assert outcomes.count("started") == 1
    assert outcomes.count("joined") == 19
    assert store.count() == 1


class StateError(Exception):
    """What a driver raises, with the state that PostgreSQL names."""

    def __init__(self, sqlstate: str | None) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("error", "failures", "tries"),
    [
        (IntegrityError("INSERT", {}, StateError(None)), 1, 2),
        (OperationalError("INSERT", {}, StateError("40P01")), 2, 3),
        (IntegrityError("INSERT", {}, StateError("23505")), 3, 3),
        (OperationalError("INSERT", {}, StateError("57P01")), 1, 1),
        (OperationalError("INSERT", {}, StateError("55P03")), 1, 1),
    ],
    ids=["taken elsewhere", "deadlocks", "taken too often", "server stops", "held elsewhere"],
)
def test_only_alerts_that_another_process_took_just_then_are_tried_again(
    error: DBAPIError,
    failures: int,
    tries: int,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take, taken = store._accept_locked, []

    def failing(arrivals: Sequence[Arrival], now: datetime) -> list[Accepted]:
        taken.append(arrivals)
        if len(taken) <= failures:
            raise error
        return take(arrivals, now)

    monkeypatch.setattr(store, "_accept_locked", failing)
    if tries > failures:
        assert store.accept(ALERT, now=NOW).outcome == "started"
    else:
        with pytest.raises((DBAPIError, IncidentBusy)) as raised:
            store.accept(ALERT, now=NOW)
        is_busy = isinstance(raised.value, IncidentBusy)
        assert is_busy == (getattr(error.orig, "sqlstate", "") == "55P03")
    assert len(taken) == tries


def test_what_was_not_dispatched_is_found_after_a_restart(
    store: Store, reopen: Callable[[], Store]
) -> None:
    first = store.accept(ALERT).investigation_id
    second = store.accept(ALERT.model_copy(update={"title": "other"})).investigation_id
    store.mark_dispatched([first or ""])
    assert list(reopen().undispatched()) == [second]


def test_progress_is_kept_in_order_and_a_step_run_twice_adds_nothing(store: Store) -> None:
    name = store.accept(ALERT).investigation_id or ""
    store.add_progress(name, "collect", "prometheus: 3 items", key="collect prometheus")
    store.add_progress(name, "collect", "prometheus: 3 items", key="collect prometheus")
    store.add_progress(name, "analyze", "7 findings", key="analyze")
    lines = store.progress(name)
    assert [line.text for line in lines] == ["prometheus: 3 items", "7 findings"]
    assert [line.text for line in store.progress(name, after=lines[0].seq)] == ["7 findings"]


def test_a_post_is_claimed_by_one_and_its_ref_is_kept(
    store: Store, reopen: Callable[[], Store]
) -> None:
    name = store.accept(ALERT).investigation_id or ""
    lease = timedelta(seconds=60)
    assert store.claim_post("k", name, owner="w1", lease=lease).mine
    other = reopen().claim_post("k", name, owner="w2", lease=lease)
    assert not other.mine
    assert other.attempted_before is not None
    store.record_post("k", "17.5")
    after = store.claim_post("k", name, owner="w2", lease=lease)
    assert (after.mine, after.ref) == (False, "17.5")
    assert store.posts(name) == {"k": "17.5"}


def test_a_claim_passes_to_another_when_its_lease_is_over(store: Store) -> None:
    name = store.accept(ALERT).investigation_id or ""
    store.claim_post("k", name, owner="w1", lease=timedelta(seconds=0))
    taken = store.claim_post("k", name, owner="w2", lease=timedelta(seconds=0))
    assert taken.mine
    assert taken.attempted_before is not None


def test_a_clock_set_back_does_not_hold_a_claim_for_longer(store: Store) -> None:
    investigation = store.accept(ALERT).investigation_id or ""
    lease = timedelta(seconds=10)
    assert store.claim_post("k", investigation, owner="dead", lease=lease).mine
    with Session(store.engine) as session, session.begin():
        session.get_one(PostRow, "k").attempted_at = datetime.now(UTC) + timedelta(hours=1)
    assert store.claim_post("k", investigation, owner="next", lease=lease).mine
