from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faultline.analysis.metrics.seasonality import DAY_NS, Days, same_hours
from faultline.analysis.metrics.shifts import metric_shifts
from tests.analysis.cases import at, write_case

DAY = 24 * 60
BATCH = range(5, 25)


def nights(
    alike: int, known: int, *, tonight: float = 90.0, usual: float = 90.0, jitter: int = 0
) -> list[dict[str, Any]]:
    """CPU in points of five minutes: a batch job on the last `alike` of `known` nights, and
    tonight."""
    rows = []
    for night in range(known + 1):
        level = tonight if night == 0 else usual if night <= alike else 20.0
        for minute in range(-120 if night == 0 else -180, 30, 5):
            busy = minute - (jitter if night else 0) in BATCH
            value = (level if busy else 20.0) + (minute // 5 * 7 + night) % 5 - 2
            rows.append(
                {
                    "time": at(minute - night * DAY),
                    "service": "db",
                    "signal": "cpu_percent",
                    "value": value,
                }
            )
    return rows


def scope(known: int) -> dict[str, Any]:
    """The two hours before, and three hours and a half of each earlier day."""
    history = [[at(-180 - n * DAY), at(30 - n * DAY)] for n in range(1, known + 1)]
    return {"baseline": [[at(-120), at(0)], *history]}


def test_what_happens_every_night_is_said_and_discounted(tmp_path: Path) -> None:
    (usual,) = metric_shifts(write_case(tmp_path / "a", metrics=nights(6, 7), scope=scope(7)))
    (new,) = metric_shifts(write_case(tmp_path / "b", metrics=nights(0, 7), scope=scope(7)))
    assert usual.details.written()["usual_at_this_hour"] is True
    assert usual.sentence.endswith(", as on 6 of 7 days before at this hour.")
    assert usual.numbers["days_alike"] == 6
    assert usual.numbers["days_before"] == 7
    assert new.details.written()["usual_at_this_hour"] is False
    assert new.strength > 0.8
    assert usual.strength == pytest.approx(new.strength / 4, abs=0.02)


def test_a_batch_job_that_starts_some_minutes_later_is_the_same(tmp_path: Path) -> None:
    (found,) = metric_shifts(write_case(tmp_path, metrics=nights(7, 7, jitter=5), scope=scope(7)))
    assert found.details.written()["usual_at_this_hour"] is True


def test_a_night_far_worse_than_the_others_is_new(tmp_path: Path) -> None:
    (found,) = metric_shifts(write_case(tmp_path, metrics=nights(7, 7, usual=40), scope=scope(7)))
    assert found.details.written()["usual_at_this_hour"] is False
    assert found.strength > 0.8


def test_one_day_is_no_habit(tmp_path: Path) -> None:
    (found,) = metric_shifts(write_case(tmp_path, metrics=nights(1, 1), scope=scope(1)))
    assert found.details.written()["usual_at_this_hour"] is False


def test_a_long_baseline_holds_the_same_hours_as_well(tmp_path: Path) -> None:
    metrics = [
        {
            "time": at(m),
            "service": "db",
            "signal": "cpu_percent",
            "value": (90 if m % DAY in BATCH else 20) + m // 5 % 3,
        }
        for m in range(-3 * DAY, 30, 5)
    ]
    case = write_case(tmp_path, metrics=metrics, scope={"baseline": [[at(-3 * DAY), at(0)]]})
    (found,) = metric_shifts(case)
    assert found.sentence.endswith("as on 3 of 3 days before at this hour.")
    assert found.strength < 0.25


def test_the_baseline_s_level_is_that_of_the_hours_before_not_of_other_days(tmp_path: Path) -> None:
    metrics = nights(0, 3, tonight=60)
    metrics = [
        {**r, "value": r["value"] + (40 if r["time"] < at(-DAY / 2) else 0)} for r in metrics
    ]
    (found,) = metric_shifts(write_case(tmp_path, metrics=metrics, scope=scope(3)))
    assert found.numbers["baseline"] == pytest.approx(20, abs=1)


def day_before(inside: list[float], before: list[float]) -> Days:
    """What a day shows beside ten points of which five rose by 10 sigmas; in points of five
    minutes, of the same hour and of those before it."""
    minutes = 5 * np.arange(-len(before), len(inside))
    times = minutes.astype(np.int64)[None, :] * 60_000_000_000 - DAY_NS
    window = (np.array([0]), np.array([45 * 60_000_000_000]))
    deviations = np.array([[*before, *inside]])
    return same_hours(times, deviations, window, np.array([10.0]), np.array([5]), np.array([10]))


@pytest.mark.parametrize(("points", "known"), [(4, 0), (6, 1)])
def test_a_day_of_which_half_the_points_are_missing_is_not_known(points: int, known: int) -> None:
    found = day_before([10.0] * points, [0.0] * 24)
    assert (int(found.total[0]), int(found.alike[0])) == (known, known)


@pytest.mark.parametrize(
    ("before", "alike"),
    [
        ([0.0] * 28 + [-4.0] * 8, 0),
        ([0.0] * 20 + [-4.0] * 16, 1),
        ([-4.0] * 2, 0),
        ([-4.0] * 3, 1),
    ],
    ids=["lower for less than an hour", "lower for longer", "two points", "three points"],
)
def test_a_day_s_own_level_is_that_of_the_two_hours_before(before: list[float], alike: int) -> None:
    assert int(day_before([3.0] * 10, before).alike[0]) == alike
