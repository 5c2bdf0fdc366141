"""Investigations that turn out to be of one incident once their evidence is analysed, on SQLite and
on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.admission import Policy
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import AlertSettings
from faultline.bot.store.connections import connect
from faultline.bot.store.memory import LearnedCall, LearnedCalls
from faultline.bot.store.messages import DueUpdates
from faultline.bot.store.store import Delivery, ReplyTo, Store, StoredInvestigation
from tests.databases import store_engine

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """A bot that nobody has told who calls whom."""
    prepared = store_engine(database_url)
    engine = connect(database_url)
    yield Store(engine, policy=Policy.of(Settings(alerts=AlertSettings(groups="on"))))
    engine.dispose()
    prepared.dispose()


def alert(
    service: str, *, minutes: float = 0, labels: Mapping[str, str] | None = None, title: str = ""
) -> Alert:
    return Alert(
        source="alertmanager",
        title=title or f"{service} fails",
        service=service,
        started_at=NOW + minutes * MINUTE,
        labels=labels or {},
    )


def started(store: Store, one: Alert) -> str:
    accepted = store.accept(one, reply_to=ReplyTo("C1"), now=one.started_at)
    assert accepted.outcome == "started"
    assert accepted.investigation_id is not None
    store.start(accepted.investigation_id)
    return accepted.investigation_id


def learn(store: Store, caller: str, callee: str) -> None:
    LearnedCalls(store.engine).learn([LearnedCall(caller, callee, "mesh", NOW, "earlier")])


def answer(store: Store, investigation_id: str, culprit: str | None) -> None:
    store.finish(
        investigation_id,
        "done",
        verdict="cause_found",
        confidence=0.9,
        headline=f"{culprit} fails",
        culprit=culprit,
        explained=True,
    )


def read(store: Store, investigation_id: str) -> StoredInvestigation:
    stored = store.get(investigation_id)
    assert stored is not None
    return stored


@pytest.mark.parametrize("services", permutations(["api", "ledger"]))
def test_whoever_came_later_joins_once_a_call_is_learned(
    store: Store, services: tuple[str, str]
) -> None:
    first = started(store, alert(services[0]))
    second = started(store, alert(services[1], minutes=1))
    assert store.late_joins.join(second, None) is None
    learn(store, "api", "ledger")
    assert store.late_joins.join(first, None) is None, "it came first, and goes on"
    joined = store.late_joins.join(second, None)
    assert joined is not None
    assert joined.investigation_id == first
    assert joined.why == "api calls ledger, 60 s apart"
    assert store.late_joins.join(second, None) == joined, "a step may run again"
    [member] = read(store, first).related
    assert member.alert.service == services[1]
    ended = read(store, second)
    assert (ended.status, ended.joined_id) == ("joined", first)
    assert ended.headline == f"Part of the incident “{services[0]} fails”: {joined.why}"


def test_who_has_not_answered_joins_who_has(store: Store) -> None:
    first, second = started(store, alert("api")), started(store, alert("ledger"))
    answer(store, second, "ledger")
    joined = store.late_joins.join(first, "ledger")
    assert joined is not None
    assert joined.investigation_id == second
    assert joined.why == "an answer names ledger as the cause of both, at the same time"
    assert store.late_joins.join(second, "ledger") is None, "it has answered"


@pytest.mark.parametrize(
    ("named", "blamed", "is_run_again"),
    [("api", "ledger", True), (None, "ledger", True), ("ledger", "ledger", False)],
)
def test_who_joins_with_another_cause_has_the_other_look_once_more(
    store: Store, named: str | None, blamed: str, is_run_again: bool
) -> None:
    first, second = started(store, alert("api")), started(store, alert("ledger", minutes=1))
    # The scope of the first covers what it calls, so its evidence may only have been late.
    learn(store, "api", "ledger")
    answer(store, first, named)
    assert store.late_joins.join(second, blamed) is not None
    reruns = [rerun.investigation_id for rerun in DueUpdates(store.engine).to_rerun()]
    assert (first in reruns) == is_run_again


def test_an_alert_about_what_an_open_answer_blames_joins_at_once(store: Store) -> None:
    first = started(store, alert("api"))
    answer(store, first, "ledger")
    accepted = store.accept(alert("ledger", minutes=1), now=NOW + MINUTE)
    assert (accepted.outcome, accepted.investigation_id) == ("grouped", first)
    over = alert("api").model_copy(update={"status": "resolved"})
    store.accept(over, now=NOW + 2 * MINUTE)
    gone = alert("ledger", minutes=1).model_copy(update={"status": "resolved"})
    store.accept(gone, now=NOW + 2 * MINUTE)
    assert store.accept(alert("ledger", minutes=3), now=NOW + 3 * MINUTE).outcome == "started"


def test_what_had_joined_the_one_belongs_to_the_other(store: Store) -> None:
    first, second = started(store, alert("api")), started(store, alert("ledger"))
    store.accept(alert("ledger", title="ledger is slow", minutes=1), now=NOW + MINUTE)
    answer(store, first, "ledger")
    assert store.late_joins.join(second, None) is not None
    titles = {member.alert.title for member in read(store, first).related}
    assert titles == {"ledger fails", "ledger is slow"}
    assert read(store, second).related == ()
    repeat = store.accept(alert("ledger"), delivery=Delivery("am", "1"), now=NOW + 2 * MINUTE)
    assert (repeat.outcome, repeat.investigation_id) == ("joined", first)
    over = alert("ledger").model_copy(update={"status": "resolved"})
    assert store.accept(over, now=NOW + 3 * MINUTE).investigation_id == first


@pytest.mark.parametrize(
    ("other", "culprit"),
    [
        (alert("search"), "ledger"),
        (alert("ledger", labels={"env": "staging"}), "ledger"),
        (alert("ledger", labels={"namespace": "shop-staging"}), "ledger"),
        (alert("ledger", minutes=9), "ledger"),
    ],
)
def test_what_is_of_another_incident_or_place_joins_nothing(
    store: Store, other: Alert, culprit: str
) -> None:
    labels = {"env": "prod", "namespace": "shop-prod"}
    first = started(store, alert("api", labels=labels))
    second = started(store, other)
    answer(store, first, culprit)
    assert store.late_joins.join(second, "search") is None


def test_what_a_person_asked_for_joins_nothing(store: Store) -> None:
    first = started(store, alert("api"))
    answer(store, first, "ledger")
    asked = store.accept(alert("ledger"), by_person=True, now=NOW).investigation_id
    assert asked is not None
    assert store.late_joins.join(asked, "ledger") is None


def test_an_open_answer_that_blames_something_else_is_named(store: Store) -> None:
    learn(store, "api", "ledger")
    first = started(store, alert("api"))
    answer(store, first, "api")
    # Too far apart to be one investigation.
    second = started(store, alert("ledger", minutes=12))
    [earlier] = store.late_joins.answers_beside(second, "ledger")
    assert (earlier.title, earlier.culprit) == ("api fails", "api")
    assert store.late_joins.answers_beside(second, "api") == []
    store.accept(alert("api").model_copy(update={"status": "resolved"}), now=NOW + 5 * MINUTE)
    unrelated = started(store, alert("search", minutes=12))
    assert store.late_joins.answers_beside(unrelated, "search") == []


def test_of_two_that_are_analysed_at_once_in_one_place_one_names_what_the_other_blames(
    store: Store,
) -> None:
    labels = {"namespace": "shop"}
    first = started(store, alert("api", labels=labels))
    second = started(store, alert("ledger", minutes=1, labels=labels))
    elsewhere = started(
        store, alert("ledger", minutes=1, title="twin", labels={"namespace": "shop-2"})
    )
    assert store.late_joins.join(first, "api") is None
    assert store.late_joins.answers_beside(first, "api") == []
    assert store.late_joins.join(second, "ledger") is None
    [beside] = store.late_joins.answers_beside(second, "ledger")
    assert (beside.title, beside.culprit, beside.is_tied) == ("api fails", "api", False)
    assert store.late_joins.join(elsewhere, "ledger") is None
    assert store.late_joins.answers_beside(elsewhere, "ledger") == []


def test_an_answer_that_only_repeats_its_alert_joins_what_fails_more(
    store: Store,
) -> None:
    labels = {"namespace": "shop"}
    first = started(store, alert("api", labels=labels))
    assert store.late_joins.join(first, "api", ["ledger"]) is None, "it came first"
    second = started(store, alert("ledger", minutes=1, labels=labels))
    assert store.late_joins.join(second, "ledger", ["search"]) is None
    joined = store.late_joins.join(second, "ledger", ["search", "api"])
    assert joined is not None
    assert joined.investigation_id == first
    why = "api fails more requests in shop, and nothing else explains ledger, 60 s apart"
    assert joined.why == why


@pytest.mark.parametrize(
    ("minutes", "labels"),
    [(3, {"namespace": "shop"}), (1, {"namespace": "shop-2"}), (1, {}), (1, {"env": "prod"})],
)
def test_failing_more_ties_only_alerts_of_the_same_minutes_in_one_namespace(
    store: Store, minutes: float, labels: Mapping[str, str]
) -> None:
    first = started(store, alert("api", labels={"namespace": "shop", "env": "prod"}))
    answer(store, first, "api")
    second = started(store, alert("ledger", minutes=minutes, labels=labels))
    assert store.late_joins.join(second, "ledger", ["search", "api"]) is None


@pytest.mark.parametrize(
    ("minutes", "labels", "is_named"),
    [
        (4, {"namespace": "shop"}, True),
        (4, {"env": "prod"}, True),
        (4, {}, False),
        (2, {}, True),
        (2, {"namespace": "shop-2"}, False),
        (6, {"namespace": "shop"}, False),
    ],
)
def test_the_answer_to_what_began_about_then_is_named_unless_something_keeps_them_apart(
    store: Store, minutes: float, labels: Mapping[str, str], is_named: bool
) -> None:
    first = started(store, alert("api", labels={"namespace": "shop", "env": "prod"}))
    answer(store, first, "api")
    second = started(store, alert("ledger", minutes=minutes, labels=labels))
    assert bool(store.late_joins.answers_beside(second, "ledger")) == is_named
