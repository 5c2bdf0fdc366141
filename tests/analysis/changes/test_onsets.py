from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from analysis.changes.onsets import Climb, climb_of
from analysis.suspects.explanations import Suspect
from tests.analysis.cases import START, at, write_case

SEEN = frozenset({"memory"})


def climb(
    folder: Path,
    level: Callable[[int], float],
    signal: str = "memory_rss_mb",
    seen: frozenset[str] = SEEN,
) -> Climb | None:
    rows = [
        {
            "time": at(m),
            "service": "api",
            "signal": signal,
            "value": level(m) + 0.3 * ((m * 7) % 5 - 2),
        }
        for m in range(-180, 30)
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
