"""What is judged alike in databases of any vendor, at each threshold."""

from __future__ import annotations

import pytest

from faultline.connectors.shared.databases.database_facts import (
    StatementCounts,
    connection_facts,
    deadlock_facts,
    lock_facts,
    open_facts,
    restart_facts,
    slower_facts,
    slowest_details,
)
from faultline.connectors.shared.databases.lock_chains import DatabaseSession
from tests.connectors.fact_rows import fact_rows


@pytest.mark.parametrize(
    ("used", "most", "shown"),
    [
        (89, 100, []),
        (90, 100, ["90 of 100 (90 % of max_connections)"]),
        (7, 0, []),
        (1, 1, ["1 of 1 (100 % of max_connections)"]),
    ],
)
def test_connections_run_out_from_nine_of_ten(used: int, most: int, shown: list[str]) -> None:
    assert fact_rows(connection_facts(used, most)) == [
        ("pool_exhausted", value, None, "max_connections") for value in shown
    ]


def test_only_a_start_within_the_window_belongs_to_the_incident() -> None:
    assert fact_rows(restart_facts(600, 600, "Uptime")) == [
        ("database_restarted", "its server started 10 min ago", 600.0, "Uptime")
    ]
    assert restart_facts(601, 600, "Uptime") == []


def test_only_deadlocks_since_the_first_look_count() -> None:
    assert fact_rows(deadlock_facts(5, 7)) == [
        ("database_deadlocks", "2 deadlocks just now", None, "deadlocks")
    ]
    assert fact_rows(deadlock_facts(5, 6))[0][1] == "1 deadlock just now"
    assert deadlock_facts(5, 5) == deadlock_facts(5, 0) == []


def waiting(name: str, *waits_for: str, waited_s: float | None = 5.0) -> DatabaseSession:
    return DatabaseSession(
        name, f"app {name}", "active", waits_for=waits_for, waited_s=waited_s, lock="stock"
    )


def test_each_session_that_others_wait_for_is_a_fact_up_to_five() -> None:
    sessions = []
    for number in range(7):
        sessions += [waiting(f"h{number}"), waiting(f"w{number}", f"h{number}", waited_s=9.0)]
    facts = fact_rows(lock_facts(sessions))
    assert len(facts) == 5
    assert {(name, since, field) for name, _, since, field in facts} == {
        ("sessions_blocked", 9.0, "locks")
    }


def open_session(name: str, doing: str, open_s: float | None, **values: object) -> DatabaseSession:
    return DatabaseSession(name, "app", doing, open_s=open_s, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("doing", "open_s", "is_told"),
    [
        ("idle in transaction", 59, False),
        ("idle in transaction", 60, True),
        ("active", 60, False),
        ("active", 299, False),
        ("active", 300, True),
        ("active", None, False),
    ],
)
def test_an_idle_transaction_is_old_sooner_than_one_that_works(
    doing: str, open_s: float | None, is_told: bool
) -> None:
    assert bool(open_facts([open_session("7", doing, open_s)])) == is_told


def test_the_transaction_that_is_open_longest_is_told_with_what_it_does() -> None:
    sessions = [
        open_session("1", "active", 400),
        open_session("2", "idle in transaction", 500, statement="SELECT ?"),
        open_session("3", "active", 350),
    ]
    assert fact_rows(open_facts(sessions)) == [
        (
            "transaction_held_open",
            "session 2 (app, idle in transaction) for 8.3 min, and 2 more; its statement: SELECT ?",
            500,
            "transactions",
        )
    ]


def test_whoever_waits_or_is_waited_for_is_told_by_the_locks_alone() -> None:
    holder = open_session("1", "idle in transaction", 900)
    victim = open_session("2", "active", 900, waits_for=("1",), waited_s=800)
    assert open_facts([holder, victim]) == []
    assert len(lock_facts([holder, victim])) == 1


def counts(name: str, calls: float, mean_ms: float) -> StatementCounts:
    return StatementCounts(name, f"SELECT {name}", calls, calls * mean_ms)


@pytest.mark.parametrize(
    ("before", "now", "is_told"),
    [
        ((100, 2.0), (5, 6.0), True),
        ((99, 2.0), (5, 6.0), False),
        ((100, 2.0), (4, 6.0), False),
        ((100, 2.0), (5, 5.9), False),
        ((100, 1.0), (5, 4.9), False),
        ((100, 0.0), (5, 6.0), False),
    ],
)
def test_a_statement_is_slower_by_enough_calls_three_times_the_mean_and_5_ms(
    before: tuple[float, float], now: tuple[float, float], is_told: bool
) -> None:
    first = counts("a", *before)
    later = StatementCounts(
        "a", first.text, before[0] + now[0], first.total_ms + counts("a", *now).total_ms
    )
    assert bool(slower_facts([first], [later])) == is_told


def test_the_slower_statements_are_those_that_take_the_time_of_the_sample() -> None:
    before = [counts(name, 1000, 2.0) for name in ("a", "b", "c", "reset")]

    def later(name: str, calls: float, mean_ms: float) -> StatementCounts:
        sample = counts(name, calls, mean_ms)
        return StatementCounts(name, sample.text, 1000 + calls, 2000 + sample.total_ms)

    # `b` took a hundredth of the time of the sample; `reset` was reset, and `new` is new.
    after = [
        later("a", 10, 20.0),
        later("b", 5, 6.0),
        later("c", 100, 30.0),
        counts("reset", 900, 90.0),
        counts("new", 900, 90.0),
    ]
    assert fact_rows(slower_facts(before, after)) == [
        (
            "statements_slower",
            "30 ms per call now, 2 ms on average before (15x): SELECT c",
            None,
            "statements",
        )
    ]
    many = [counts(str(number), 1000, 2.0) for number in range(9)]
    slow = [later(str(number), 10, 20.0) for number in range(9)]
    assert len(slower_facts(many, slow)) == 5


def test_where_the_time_went_is_listed_longest_first() -> None:
    statements = [counts("a", 10, 2.0), counts("b", 2000, 30.0), counts("never", 0, 0.0)]
    assert slowest_details(statements) == {
        "most time since counted": "60 s in 2,000 calls of 30 ms: SELECT b\n"
        "20 ms in 10 calls of 2 ms: SELECT a\n"
        "0 s in 0 calls of 0 s: SELECT never"
    }
    assert slowest_details([]) == {}
    assert (
        len(slowest_details([counts("a", 1, 1.0)] * 12)["most time since counted"].split("\n"))
        == 10
    )
