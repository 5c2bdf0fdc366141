"""What the database tells in metrics, and that nothing which a sender may choose becomes a
label."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from sqlalchemy import text

from faultline.analysis.vocabulary import Alert
from faultline.bot.operating.telemetry.cloudwatch import metric_line
from faultline.bot.operating.telemetry.store_figures import (
    StoreFigures,
    StoreSnapshot,
    posted_since,
    read_figures,
)
from faultline.bot.runtime.measures import MOST_WORDS, OTHER, word
from faultline.bot.store.listing import Labels
from faultline.bot.store.store import Store

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def _alert(name: str, severity: str = "warning") -> Alert:
    return Alert(
        source="pagerduty", id=name, title=name, started_at=NOW, service=name, severity=severity
    )


def _accept(store: Store, name: str, *, minutes: float, severity: str = "warning") -> str:
    taken = store.accept(_alert(name, severity), now=NOW - timedelta(minutes=minutes))
    assert taken.investigation_id is not None
    return taken.investigation_id


def test_the_queue_is_told_by_priority_with_the_age_of_the_oldest(store: Store) -> None:
    assert read_figures(store, (), NOW).oldest_s == 0
    _accept(store, "a", minutes=10)
    _accept(store, "b", minutes=3, severity="critical")
    store.start(_accept(store, "c", minutes=90))
    figures = read_figures(store, (), NOW)
    assert (figures.waiting, figures.oldest_s) == (2, 600.0)
    assert {(p.status, p.priority): p.count for p in figures.queue} == {
        ("accepted", "usual"): 1,
        ("accepted", "urgent"): 1,
        ("running", "usual"): 1,
    }


def test_failures_of_the_last_hour_are_counted_apart(store: Store) -> None:
    for name in ("a", "b"):
        one = _accept(store, name, minutes=1)
        store.start(one)
        store.finish(one, "failed", verdict=None, confidence=None, headline="h")
    now = datetime.now(UTC)
    assert read_figures(store, (), now).failed_lately == 2
    later = read_figures(store, (), now + timedelta(hours=2))
    assert (later.failed_lately, later.by_status["failed"]) == (0, 2)
    assert '"Failed": 2' in metric_line("Faultline", read_figures(store, (), now), 1.0)


def test_judgements_are_told_by_confidence(store: Store) -> None:
    for name, right in (("a", True), ("b", True), ("c", False)):
        one = _accept(store, name, minutes=1)
        store.finish(one, "done", verdict="probable_cause", confidence=0.83, headline="h")
        Labels(store.engine).write(one, right=right)
    page = _page(StoreFigures(store))
    assert 'faultline_answers_judged{confidence="0.8",judgement="right"} 2.0' in page
    assert 'faultline_answers_judged{confidence="0.8",judgement="wrong"} 1.0' in page


def test_many_scrapes_read_the_database_once(store: Store) -> None:
    asked: list[Store] = []

    def count(read: Store, *_: object) -> StoreSnapshot:
        asked.append(read)
        return read_figures(read, ())

    now = 0.0
    figures = StoreFigures(store, clock=lambda: now)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("faultline.bot.operating.telemetry.store_figures.read_figures", count)
        for _ in range(5):
            assert "faultline_database_up 1.0" in _page(figures)
        assert len(asked) == 1
        now = 11.0
        _page(figures)
    assert len(asked) == 2


def test_a_database_that_is_away_is_told_and_nothing_else(store: Store) -> None:
    with store.engine.begin() as connection:
        connection.execute(text("DROP TABLE labels"))
    page = _page(StoreFigures(store))
    assert "faultline_database_up 0.0" in page
    assert "faultline_queue_waiting" not in page


def test_a_team_that_the_settings_do_not_name_is_no_label(store: Store) -> None:
    one = _accept(store, "a", minutes=1)
    for team, label in (("payments", "payments"), ('ghost"} 1\nfake 2', OTHER), ("", "none")):
        with store.engine.begin() as connection:
            connection.execute(
                text("UPDATE investigations SET team = :team WHERE id = :id"),
                {"team": team, "id": one},
            )
        page = _page(StoreFigures(store, ["payments"]))
        assert f'faultline_queue_waiting{{priority="usual",team="{label}"}} 1.0' in page
        assert "ghost" not in page


def test_a_label_has_a_bounded_number_of_plain_values() -> None:
    values = {word("of this test", f"value {n}") for n in range(10 * MOST_WORDS)}
    assert len(values) == MOST_WORDS + 1
    assert word("of this test", "value 3") == "value 3"
    for hostile in ("a\nb", "x" * 61, "ü", "\x00", "\u202e"):
        assert word("another", hostile) == OTHER


def _page(figures: StoreFigures) -> str:
    registry = CollectorRegistry()
    registry.register(figures)
    return generate_latest(registry).decode()


def test_a_first_message_is_timed_when_it_is_posted_and_not_again(store: Store) -> None:
    one = _accept(store, "a", minutes=1)
    began = datetime.now(UTC)
    assert not posted_since(store, one, "slack", began)
    store.claim_post(f"{one}:slack", one, owner="w", lease=timedelta(seconds=10))
    store.record_post(f"{one}:slack", "C1:1.2")
    assert posted_since(store, one, "slack", began)
    assert not posted_since(store, one, "slack", datetime.now(UTC))
    assert not posted_since(store, one, "pagerduty", began)
