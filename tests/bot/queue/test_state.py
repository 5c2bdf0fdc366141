"""The queue as the store has it, on SQLite and on PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, insert
from sqlalchemy.orm import Session

from faultline.bot.queue.backlog import (
    AGEING,
    TeamQueue,
    WaitingInvestigation,
    ahead_of,
    any_waiting,
    in_order,
    level,
    next_per_team,
    queue_state,
    taken_by_team,
)
from faultline.bot.store.store import Store
from faultline.bot.store.tables import InvestigationRow

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def add(
    store: Store,
    name: str,
    *,
    priority: int = 2,
    team: str = "",
    age: timedelta = SECOND,
    status: str = "accepted",
    dispatched: datetime | None = None,
) -> None:
    row = InvestigationRow(
        id=name,
        fingerprint=name,
        alert={"source": "t", "title": name, "started_at": NOW.isoformat()},
        status=status,
        accepted_at=NOW - age,
        dispatched_at=dispatched,
        priority=priority,
        team=team,
    )
    with Session(store.engine) as session, session.begin():
        session.add(row)


def test_an_empty_queue_is_empty(store: Store) -> None:
    state = queue_state(store, NOW)
    assert (state.waiting, state.oldest_s, state.running, dict(state.by_team)) == (0, 0.0, 0, {})
    assert not any_waiting(store.engine)
    assert next_per_team(store.engine, 5) == []


def test_the_state_tells_what_waits_and_runs_for_each_team(store: Store) -> None:
    add(store, "a", team="shop", age=90 * SECOND)
    add(store, "b", team="shop", dispatched=NOW)
    add(store, "c", team="shop", status="running", dispatched=NOW, age=500 * SECOND)
    add(store, "d", status="running", dispatched=NOW)
    add(store, "e", status="done", dispatched=NOW)
    state = queue_state(store, NOW)
    assert (state.waiting, state.oldest_s, state.running) == (2, 90.0, 2)
    assert state.by_team == {"shop": TeamQueue(2, 1), "": TeamQueue(0, 1)}
    assert any_waiting(store.engine)
    assert taken_by_team(store.engine, ["b", "c", "d", "gone"]) == {"shop": 2, "": 1}


def test_the_heads_are_the_oldest_of_each_team_and_priority(store: Store) -> None:
    for number in range(5):
        add(store, f"a{number}", team="a", age=(50 - number) * SECOND)
        add(store, f"b{number}", team="b", priority=number % 2, age=(90 - number) * SECOND)
    add(store, "given", team="a", age=99 * SECOND, dispatched=NOW)
    assert {w.id for w in next_per_team(store.engine, 2)} == {"a0", "a1", "b0", "b2", "b1", "b3"}
    first = next_per_team(store.engine, 1)
    assert WaitingInvestigation("a0", 2, "a", NOW - 50 * SECOND) in first


def test_how_many_are_ahead_is_what_the_order_says(store: Store) -> None:
    add(store, "queued", dispatched=NOW - SECOND)
    add(store, "queued later", dispatched=NOW)
    add(store, "first", age=9 * SECOND)
    add(store, "urgent", priority=0)
    add(store, "aged", priority=3, age=2 * AGEING)
    add(store, "last", age=SECOND / 2)
    add(store, "running", status="running", dispatched=NOW)
    assert ahead_of(store, "queued", NOW) == 0
    assert ahead_of(store, "queued later", NOW) == 1
    assert ahead_of(store, "urgent", NOW) == 2
    assert ahead_of(store, "aged", NOW) == 3
    assert ahead_of(store, "first", NOW) == 4
    assert ahead_of(store, "last", NOW) == 5
    assert ahead_of(store, "running", NOW) is None
    assert ahead_of(store, "nowhere", NOW) is None


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 40)),
        min_size=1,
        max_size=12,
        unique_by=lambda r: r[1],
    )
)
def test_the_number_ahead_is_the_place_in_the_order(
    rows: list[tuple[int, int]], store: Store
) -> None:
    minute = timedelta(minutes=1)
    waiting = [
        WaitingInvestigation(f"w{n}", p, "", NOW - age * minute) for n, (p, age) in enumerate(rows)
    ]
    with Session(store.engine) as session, session.begin():
        session.execute(delete(InvestigationRow))
        session.execute(
            insert(InvestigationRow),
            [
                {
                    "id": w.id,
                    "fingerprint": w.id,
                    "alert": {},
                    "accepted_at": w.accepted_at,
                    "priority": w.priority,
                }
                for w in waiting
            ],
        )
    expected = {
        w.id: place for place, w in enumerate(in_order(waiting, {}, lambda _: 1.0, NOW, most=99))
    }
    assert {w.id: ahead_of(store, w.id, NOW) for w in waiting} == expected


def test_levels_are_never_beyond_urgent() -> None:
    assert level(3, NOW - timedelta(days=9), NOW) == 0
    assert pytest.approx(AGEING.total_seconds()) == 600
