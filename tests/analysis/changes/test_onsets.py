from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from faultline.analysis.changes.onsets import Climb, climb_of
from faultline.analysis.suspects.suspect import Suspect
from tests.analysis.cases import START, at, write_case

SEEN = frozenset({"memory"})


def climb(
    folder: Path,
    level: Callable[[int], float],
    signal: str = "memory_rss_mb",
    seen: frozenset[str] = SEEN,
    *,
    first: int = -180,
) -> Climb | None:
    rows = [
        {
            "time": at(m),
            "service": "api",
            "signal": signal,
            "value": level(m) + 0.3 * ((m * 7) % 5 - 2),
        }
        for m in range(first, 30)
    ]
    return climb_of(write_case(folder, metrics=rows), [Suspect("api", onset=START)], seen)


def test_a_leak_begins_where_memory_begins_to_climb(tmp_path: Path) -> None:
    found = climb(tmp_path, lambda m: 300 + 4 * max(0, m + 120) if m < 0 else 280)
    assert found is not None
    assert abs(found.start - (START - timedelta(minutes=120))) <= found.uncertainty
    assert not found.from_the_beginning


def test_what_climbs_in_all_that_is_known_began_before(tmp_path: Path) -> None:
    found = climb(tmp_path, lambda m: 300 + 4 * (m + 180))
    assert found is not None
    assert found.from_the_beginning


@pytest.mark.parametrize(("flat", "from_the_beginning"), [(10, True), (18, False)])
def test_a_few_flat_points_do_not_show_when_a_climb_began(
    tmp_path: Path, flat: int, *, from_the_beginning: bool
) -> None:
    found = climb(tmp_path, lambda m: 300 + 4 * max(0, m + 180 - flat))
    assert found is not None
    assert found.from_the_beginning is from_the_beginning


@pytest.mark.parametrize(
    ("points", "climbing", "is_one"),
    [(11, 6, False), (14, 6, True), (40, 3, False), (40, 5, True)],
    ids=["few points", "enough points", "few that climb", "enough that climb"],
)
def test_a_climb_shows_in_enough_points(
    tmp_path: Path, points: int, climbing: int, *, is_one: bool
) -> None:
    found = climb(tmp_path, lambda m: 300 + 60 * max(0, m + climbing), first=1 - points)
    assert (found is not None) is is_one


@pytest.mark.parametrize(("jump", "is_climb"), [(250, True), (320, False)])
def test_what_jumps_nearly_as_far_as_it_climbs_is_a_step(
    tmp_path: Path, jump: float, *, is_climb: bool
) -> None:
    found = climb(tmp_path, lambda m: 300 if m < -80 else 300 + jump + 5 * (m + 80))
    assert (found is not None) is is_climb


def test_free_memory_that_falls_is_a_climb_of_what_is_used(tmp_path: Path) -> None:
    found = climb(tmp_path, lambda m: 900 - 4 * max(0, m + 100), signal="memory_free_mb")
    assert found is not None
    assert abs(found.start - (START - timedelta(minutes=100))) <= found.uncertainty


@pytest.mark.parametrize(
    "level",
    [
        lambda m: 300.0 if m < 0 else 900.0,
        lambda m: 300.0,
        lambda m: 300.0 + 0.2 * max(0, m + 120),
        lambda m: 300.0 + 200 * ((m // 30) % 2),
    ],
    ids=["step", "flat", "small", "square"],
)
def test_steps_and_waves_and_small_growth_are_no_climbs(
    level: Callable[[int], float], tmp_path: Path
) -> None:
    assert climb(tmp_path, level) is None


def test_a_climb_that_nothing_tells_of_is_no_onset(tmp_path: Path) -> None:
    assert climb(tmp_path, lambda m: 300 + 4 * max(0, m + 120), seen=frozenset({"access"})) is None
