"""Memory on both databases: what ended is found again by its alert, its services and its words."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.orm import Session

from faultline.analysis.case.earlier import EarlierCause, EarlierInvestigation
from faultline.analysis.vocabulary import Alert
from faultline.bot.store.memory import Memory
from faultline.bot.store.store import Store
from faultline.bot.store.tables import InvestigationRow

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=900)
HOSTILE = [
    '"',
    "'",
    "\\",
    "' OR 1=1; DROP TABLE remembered; --",
    '" OR words MATCH "x',
    "checkout NEAR(latency) -p99 ^x col:y",
    "AND OR NOT",
    "* ** :* & | ! <-> ()",
    "a\x00b",
    "\ud800\udfff",
    "%_%",
    "支付超时 🙂 \u202e",
    "x" * 10_000,
    "checkout " * 2_000,
    '"' * 10_000,
    "e\u0301" * 5_000,
    "\ufdfa" * 10_000,
    "",
    " ",
]


def alert(title: str = "checkout p99 latency above 800 ms", **more: object) -> Alert:
    return Alert.model_validate(
        {"source": "pagerduty", "title": title, "started_at": NOW, "service": "checkout", **more}
    )


def remember(
    store: Store, about: Alert, *, minutes: float = 0, **more: object
) -> EarlierInvestigation:
    """An investigation of that alert, ended and remembered."""
    when = NOW + timedelta(minutes=minutes)
    accepted = store.accept(about, now=when)
    assert accepted.investigation_id is not None
    store.accept(about.model_copy(update={"status": "resolved"}), now=when)
    known = EarlierInvestigation.model_validate(
        {
            "id": accepted.investigation_id,
            "at": when,
            "fingerprint": about.fingerprint,
            "title": about.title,
            "services": [about.service] if about.service else [],
            "verdict": "cause_found",
            **more,
        }
    )
    Memory(store.engine).remember(known, about)
    return known


def ids(found: list[EarlierInvestigation]) -> list[str]:
    return [f.id for f in found]


def matching(store: Store, words: str) -> list[str]:
    """The ids of those that hold every word, sorted."""
    with Session(store.engine) as session:
        return sorted(session.scalars(Memory(store.engine).matching(words)))


def test_what_was_remembered_is_found_by_every_part_of_it(store: Store) -> None:
    cause = EarlierCause(
        subject="payments-db", kind="deploy", change="4f2a9c1", summary="connection pool exhausted"
    )
    kept = remember(
        store,
        alert(),
        headline="Checkout is slow. Cause: payments-db",
        causes=[cause],
        system="shop",
    )
    remember(store, alert("disk of node-7 is full", service="node-7"))
    for words in (
        "checkout",
        "LATENCY p99",
        "payments-db",
        "4f2a9c1",
        "pool exh",
        "shop",
        "cause_found slow",
    ):
        assert matching(store, words) == [kept.id], words
    for words in ("checkout disk", "", "..."):
        assert matching(store, words) == [], words


def test_the_newest_come_first_within_time_and_limit(store: Store) -> None:
    kept = [remember(store, alert(), minutes=n) for n in range(4)]
    later = NOW + timedelta(minutes=3)

    def of_checkout(*, limit: int = 5, since: datetime = LONG_AGO) -> list[str]:
        memory = Memory(store.engine)
        return ids(memory.of_services(["checkout"], since=since, before=later, limit=limit))

    assert of_checkout() == [kept[2].id, kept[1].id, kept[0].id]
    assert of_checkout(limit=2) == [kept[2].id, kept[1].id]
    assert of_checkout(since=NOW + timedelta(minutes=2)) == [kept[2].id]
    assert of_checkout(limit=0) == []


def test_a_search_can_be_kept_to_services(store: Store) -> None:
    mine = remember(store, alert(), services=["checkout", "payment"])
    remember(store, alert(service="cart"))

    def of(*services: str) -> list[EarlierInvestigation]:
        later = NOW + timedelta(hours=1)
        return Memory(store.engine).of_services(services, since=LONG_AGO, before=later, limit=5)

    assert of("payment", "x") == of("checkout") == [mine]
    assert of("'; --") == of() == []


def test_words_are_found_without_case_accents_and_blanks_of_other_scripts(store: Store) -> None:
    zurich = remember(store, alert("Zürich: Überlauf der Warteschlange"))
    payment = remember(store, alert("支付服务超时"))
    assert matching(store, "ZURICH uberlauf") == [zurich.id]
    assert matching(store, "超时") == [payment.id]
    assert matching(store, "时代") == []


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_searches_neither_raise_nor_reach_the_database_as_a_query(
    store: Store, hostile: str
) -> None:
    kept = remember(store, alert())
    memory = Memory(store.engine)
    began = time.process_time()
    later = NOW + timedelta(days=1)
    matching(store, hostile)
    memory.of_services([hostile, "checkout"], since=NOW, before=later, limit=10)
    memory.of_like_words(hostile, since=LONG_AGO, before=later, limit=3)
    assert time.process_time() - began < 10
    assert matching(store, "checkout") == [kept.id]


def test_any_text_can_be_searched(store: Store) -> None:
    memory = Memory(store.engine)
    kept = remember(store, alert())

    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.text(max_size=60))
    def searched(words: str) -> None:
        matching(store, words)
        memory.of_like_words(words, since=LONG_AGO, before=NOW, limit=3)

    searched()
    assert matching(store, "checkout") == [kept.id]


@pytest.mark.parametrize("hostile", [h for h in HOSTILE if "\ud800" not in h])
def test_hostile_investigations_are_remembered_and_found(store: Store, hostile: str) -> None:
    cause = EarlierCause(subject=hostile, kind=hostile, change=hostile, summary=hostile)
    kept = remember(
        store,
        alert(),
        services=[hostile, "checkout"],
        headline=hostile,
        causes=[cause],
        system=hostile,
    )
    assert matching(store, "checkout") == [kept.id]
    later = NOW + timedelta(days=1)
    of_both = Memory(store.engine).of_services(["checkout"], since=NOW, before=later, limit=5)
    assert ids(of_both) == [kept.id]


def test_once_more_replaces_what_was_kept(store: Store) -> None:
    first = remember(store, alert(), headline="payment is slow", services=["checkout", "payment"])
    memory = Memory(store.engine)
    memory.remember(
        first.model_copy(update={"headline": "cart is slow", "services": ("cart",)}), alert()
    )
    assert matching(store, "payment") == []
    assert matching(store, "cart") == [first.id]
    later = NOW + timedelta(days=1)
    assert memory.of_services(["payment"], since=NOW, before=later, limit=5) == []
    assert ids(memory.of_services(["cart"], since=NOW, before=later, limit=5)) == [first.id]
    known = memory.get(first.id)
    assert known is not None
    assert known.headline == "cart is slow"


def test_memory_goes_with_its_investigation(store: Store) -> None:
    gone, kept = remember(store, alert()), remember(store, alert(), minutes=1)
    with Session(store.engine) as session, session.begin():
        session.delete(session.get_one(InvestigationRow, gone.id))
    memory = Memory(store.engine)
    assert matching(store, "checkout") == [kept.id]
    assert memory.get(gone.id) is None
    with store.engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM remembered_services")).scalar() == 1
    with store.engine.begin() as connection:
        if connection.dialect.name == "sqlite":
            connection.execute(
                text("INSERT INTO remembered_search(remembered_search) VALUES ('integrity-check')")
            )


def test_the_same_alert_is_known_by_its_fingerprint_or_by_its_words(store: Store) -> None:
    same = remember(store, alert("title was edited", labels={"fingerprint": "abc"}))
    worded = remember(store, alert(labels={"incident_key": "incident 1"}), minutes=1)
    remember(store, alert(service="cart"), minutes=2)
    asked = alert(labels={"fingerprint": "abc"})
    memory = Memory(store.engine)
    found = memory.same_alert(asked, since=LONG_AGO, before=NOW + timedelta(hours=1), limit=5)
    assert ids(found) == [worded.id, same.id]
    assert memory.count_answers(asked, since=LONG_AGO, before=NOW + timedelta(hours=1)) == 2
    assert memory.count_answers(asked, since=LONG_AGO, before=NOW + timedelta(minutes=1)) == 1
    assert (
        memory.count_answers(
            asked, since=NOW + timedelta(minutes=1), before=NOW + timedelta(hours=1)
        )
        == 1
    )


def test_alike_words_are_at_least_half_of_the_alerts(store: Store) -> None:
    like = remember(store, alert("checkout p99 latency above 1500 ms", service="other"))
    remember(store, alert("checkout pods restart", service="other"), minutes=1)
    memory = Memory(store.engine)
    later = NOW + timedelta(hours=1)
    assert ids(memory.of_like_words(alert().title, since=LONG_AGO, before=later, limit=3)) == [
        like.id
    ]
    assert memory.of_like_words(alert().title, since=LONG_AGO, before=NOW, limit=3) == []


def test_a_search_of_many_uses_the_index(store: Store) -> None:
    remember(store, alert())
    with store.engine.begin() as connection:
        if connection.dialect.name == "sqlite":
            plan = (
                "EXPLAIN QUERY PLAN SELECT rowid FROM remembered_search WHERE "
                "remembered_search MATCH '\"x\"'"
            )
            used = "VIRTUAL TABLE INDEX"
        else:
            connection.execute(text("SET LOCAL enable_seqscan = off"))
            plan = (
                "EXPLAIN SELECT id FROM remembered WHERE "
                "array_to_tsvector(string_to_array(remembered.words, ' ')) @@ CAST('''x''' AS "
                "tsquery)"
            )
            used = "ix_remembered_search"
        assert used in " ".join(str(row) for row in connection.exec_driver_sql(plan))
