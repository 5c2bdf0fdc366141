"""In which order what waits is taken."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from faultline.bot.policy.priority import HIGH, LOW, URGENT, USUAL
from faultline.bot.queue.backlog import AGEING, Capacity, WaitingInvestigation, in_order, level

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def one(
    name: str, priority: int = USUAL, team: str = "", age: timedelta = SECOND
) -> WaitingInvestigation:
    return WaitingInvestigation(name, priority, team, NOW - age)


def taken(
    *waiting: WaitingInvestigation,
    most: int = 100,
    running: dict[str, int] | None = None,
    **shares: float,
) -> list[str]:
    given = in_order(waiting, running or {}, lambda team: shares.get(team, 1.0), NOW, most=most)
    return [w.id for w in given]


def test_the_most_urgent_is_taken_first_then_the_oldest() -> None:
    waiting = [
        one("low", LOW, age=60 * SECOND),
        one("new", HIGH),
        one("old", HIGH, age=9 * SECOND),
        one("u", URGENT),
    ]
    assert taken(*waiting) == ["u", "old", "new", "low"]
    assert taken(*waiting, most=2) == ["u", "old"]
    assert taken() == []
    assert taken(*waiting, most=0) == []


def test_what_waits_becomes_more_urgent_so_that_nothing_starves() -> None:
    old = one("low", LOW, age=3 * AGEING + SECOND)
    assert taken(one("u", URGENT), one("h", HIGH), old) == ["low", "u", "h"]
    assert taken(one("h", HIGH), one("low", LOW, age=AGEING)) == ["h", "low"]
    assert level(LOW, NOW + timedelta(days=1), NOW) == LOW, (
        "a clock that was set back changes nothing"
    )


def test_a_small_team_does_not_wait_for_all_of_a_large_team_s_storm() -> None:
    storm = [one(f"s{n:03d}", team="shop", age=(300 - n) * SECOND) for n in range(200)]
    assert taken(*storm, one("f", team="find"), most=4) == ["s000", "f", "s001", "s002"]
    assert taken(*storm, one("f", team="find"), most=3, running={"find": 1}) == [
        "s000",
        "s001",
        "f",
    ]


def test_a_team_gets_as_much_as_its_share_says() -> None:
    waiting = [
        one(f"{team}{n:02d}", team=team, age=(90 - n) * SECOND) for team in "ab" for n in range(30)
    ]
    first = taken(*waiting, most=15, a=2.0)
    assert Counter(name[0] for name in first) == {"a": 10, "b": 5}
    assert Counter(name[0] for name in taken(*waiting, most=15, a=2.0, running={"a": 10})) == {
        "a": 7,
        "b": 8,
    }


def test_urgency_counts_before_fairness() -> None:
    waiting = [one("a", URGENT, "shop"), one("b", URGENT, "shop"), one("c", USUAL, "find")]
    assert taken(*waiting, running={"shop": 8}) == ["a", "b", "c"]


@given(
    st.lists(
        st.tuples(st.integers(-1, 5), st.sampled_from(["", "a", "b"]), st.integers(-9999, 9999)),
        max_size=40,
    ),
    st.integers(0, 50),
)
def test_everything_is_taken_once_and_no_more_than_there_is_room_for(
    rows: list[tuple[int, str, int]], most: int
) -> None:
    waiting = [
        one(str(n), priority, team, age * SECOND) for n, (priority, team, age) in enumerate(rows)
    ]
    found = taken(*waiting, most=most)
    assert len(found) == min(most, len(rows))
    assert len(set(found)) == len(found)
    assert taken(*waiting, most=100)[: len(found)] == found


def test_room_is_what_all_workers_together_can_take_soon() -> None:
    assert capacity(concurrency=8, workers=1) == Capacity(2, 9)
    assert capacity(concurrency=8, workers=3, urgent_taken=2, usual_taken=21) == Capacity(4, 6)
    assert capacity(concurrency=1, workers=1, urgent_taken=5, usual_taken=500) == Capacity(0, 0)
    assert capacity(concurrency=1, workers=1).any


def test_no_more_is_begun_than_the_cores_carry_but_what_waits_for_others_does_not_count() -> None:
    assert capacity(concurrency=8, workers=1, cores=2) == Capacity(2, 5)
    assert capacity(concurrency=8, workers=2, cores=2, usual_taken=8, usual_busy=8).usual == 2
    assert capacity(concurrency=8, workers=2, cores=2, usual_taken=10, usual_busy=10).usual == 0
    assert capacity(concurrency=8, workers=2, cores=2, usual_taken=10, usual_busy=3).usual == 7
    assert capacity(concurrency=8, workers=2, cores=2, usual_taken=18, usual_busy=0).usual == 0, (
        "each needs a place"
    )


def capacity(*, workers: int, cores: int = 64, **given: int) -> Capacity:
    return Capacity.of(
        workers=workers,
        cores=cores,
        **{"urgent_taken": 0, "usual_taken": 0, "usual_busy": 0, **given},
    )
