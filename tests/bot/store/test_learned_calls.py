"""Calls between services that investigations learned, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from faultline.bot.store import memory
from faultline.bot.store.memory import LearnedCall, LearnedCalls
from faultline.bot.store.tables import LearnedCallRow
from faultline.bot.store.visibility import visible_to_teams
from tests.databases import store_engine

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
DAY = timedelta(days=1)
PROD = {"environment": "prod", "cluster": "prod-eu"}


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    found = store_engine(database_url)
    yield found
    found.dispose()


@pytest.fixture
def calls(engine: Engine) -> LearnedCalls:
    return LearnedCalls(engine)


def call(callee: str, days_ago: float = 1, place: dict[str, str] | None = None) -> LearnedCall:
    return LearnedCall("web", callee, "mesh", NOW - days_ago * DAY, "I1", place or {})


def known(calls: LearnedCalls, place: dict[str, str], days: float = 30) -> list[str]:
    return [one.callee for one in calls.of_place(place, since=NOW - days * DAY)]


def test_of_a_call_that_is_seen_again_the_latest_time_counts(calls: LearnedCalls) -> None:
    calls.learn([call("api", 2)])
    again = replace(call("api", 1), investigation_id="I2")
    calls.learn([again, call("db", 3), call("db", 4)])
    calls.learn([replace(call("api", 9), investigation_id="I3")])
    assert list(calls.of_place({}, since=NOW - 30 * DAY)) == [again, call("db", 3)]
    assert known(calls, {}, days=2) == ["api"]
    of_service = calls.of_place({}, since=NOW - 30 * DAY, service="db")
    assert [one.callee for one in of_service] == ["db"]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (PROD, ["eu", "prod"]),
        ({"environment": "prod"}, ["eu", "prod", "us"]),
        ({"environment": "prod", "cluster": "prod-ap", "region": "ap"}, ["prod"]),
        ({"environment": "staging"}, ["staging"]),
        ({}, ["anywhere"]),
    ],
    ids=str,
)
def test_what_was_learned_elsewhere_does_not_count(
    calls: LearnedCalls, place: dict[str, str], expected: list[str]
) -> None:
    calls.learn(
        [
            call("eu", place=PROD),
            call("us", place={"environment": "prod", "cluster": "prod-us"}),
            call("prod", place={"environment": "prod"}),
            call("staging", place={"environment": "staging", "cluster": "prod-eu"}),
            call("anywhere"),
        ]
    )
    assert sorted(known(calls, place)) == expected


def test_a_team_sees_what_it_and_what_nobody_learned(engine: Engine) -> None:
    of_all = LearnedCalls(engine)
    learned = [replace(call(team or "nobody"), team=team) for team in ("payments", "search", "")]
    of_all.learn(learned)
    own = LearnedCalls(engine, visible_to_teams(["payments"]))
    assert sorted(known(own, {})) == ["nobody", "payments"]
    assert len(known(of_all, {})) == len(own.everywhere()) + 1 == 3


def test_names_are_hostile(calls: LearnedCalls) -> None:
    names = ["a\x00b", "\ud800", "x" * 100_000, "'; DROP TABLE learned_calls; --", "é" * 300]
    calls.learn([call(name, place={"environment": name}) for name in names])
    for name in names:
        [found] = known(calls, {"environment": name})
        assert found.isprintable()
        assert len(found) <= 253


def test_no_more_is_kept_than_there_is_room_for(
    engine: Engine, calls: LearnedCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MAX_CALL_ROWS", 1_200)
    monkeypatch.setattr(memory, "MOST_LEARNED", 1_100)
    calls.learn(call(f"old-{n}", 5) for n in range(5_000))
    calls.learn(call(f"new-{n}", 1) for n in range(1_000))
    with Session(engine) as session:
        assert session.scalar(select(func.count()).select_from(LearnedCallRow)) == 1_200
    newest = known(calls, {}, days=2)
    assert len(newest) == 1_000
