"""Arithmetic on intervals, compared with the plainest way to do it."""

from __future__ import annotations

import numpy as np
import pytest

from faultline.analysis.traces.columns.intervals import innermost_at, running_end, self_times

INTEGERS = np.int64


def _random(seed: int, count: int, lanes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    starts = random.integers(0, 40, count)
    return starts, starts + random.integers(0, 15, count), random.integers(0, lanes, count)


def _innermost(
    starts: np.ndarray, ends: np.ndarray, lanes: np.ndarray, time: float, lane: int
) -> set[int]:
    """All that could be meant: the last-started open interval, the shortest of those that started
    together."""
    opened = [i for i in range(len(starts)) if lanes[i] == lane and starts[i] <= time < ends[i]]
    if not opened:
        return {-1}
    best = max((int(starts[i]), -int(ends[i])) for i in opened)
    return {i for i in opened if (int(starts[i]), -int(ends[i])) == best}


@pytest.mark.parametrize("seed", range(30))
def test_the_innermost_open_interval_is_the_last_one_started(seed: int) -> None:
    starts, ends, lanes = _random(seed, 12, 2)
    times, time_lanes = np.arange(60) % 50, np.arange(60) % 3
    found = innermost_at(starts, ends, lanes, times, time_lanes)
    for time, lane, index in zip(times.tolist(), time_lanes.tolist(), found.tolist(), strict=True):
        assert index in _innermost(starts, ends, lanes, time, lane)


@pytest.mark.parametrize("seed", range(30))
def test_self_time_is_the_time_in_which_nothing_started_later_is_open(seed: int) -> None:
    starts, ends, lanes = _random(seed, 12, 2)
    spent = self_times(starts, ends, lanes)
    covered = 0
    for lane in range(2):
        for time in range(60):
            covered += _innermost(starts, ends, lanes, time, lane) != {-1}
    assert int(spent.sum()) == covered
    assert (spent <= ends - starts).all()


def test_a_calls_self_time_is_its_own_less_its_childrens() -> None:
    starts, ends = np.asarray([0, 10, 12, 30, 0]), np.asarray([100, 20, 15, 40, 50])
    lanes = np.asarray([0, 0, 0, 0, 1])
    assert self_times(starts, ends, lanes).tolist() == [80, 7, 3, 10, 50]


def test_nothing_has_no_self_time_and_no_innermost_interval() -> None:
    none = np.empty(0, dtype=INTEGERS)
    assert len(self_times(none, none, none)) == 0
    assert innermost_at(none, none, none, np.asarray([1]), np.asarray([0])).tolist() == [-1]


@pytest.mark.parametrize("scale", [1, 2**58])
def test_the_running_end_begins_anew_with_each_group(scale: int) -> None:
    ends = np.asarray([5, 3, 7, 1, 6, 2], dtype=INTEGERS) * scale
    group = np.asarray([0, 0, 0, 2, 2, 5])
    assert (running_end(ends, group) // scale).tolist() == [5, 5, 7, 1, 6, 2]
