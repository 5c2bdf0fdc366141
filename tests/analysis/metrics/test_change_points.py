from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultline.analysis.metrics.shift_statistics import likeliest_onset
from faultline.analysis.metrics.shifts import metric_shifts
from tests.analysis.cases import START, at, series, write_case
from tests.analysis.simulated_series import LAYOUTS, Fault, case_of, gaussian, rows, times


def onset_of(row: list[float], size: float, last: int | None = None) -> tuple[int, int, int]:
    """Likeliest, earliest and latest onset in one row."""
    ends = np.array([len(row) - 1 if last is None else last])
    found = likeliest_onset(np.array([row]), np.array([size]), np.array([0]), ends)
    return int(found.at[0]), int(found.earliest[0]), int(found.latest[0])


def test_a_clear_step_has_one_onset() -> None:
    assert onset_of([0, 0, 0, 0, 8, 8, 8], 8) == (4, 4, 4)


def test_a_fall_has_one_too() -> None:
    assert onset_of([0, 0, 0, 0, -8, -8, -8], -8) == (4, 4, 4)


def test_a_point_half_way_makes_the_onset_uncertain() -> None:
    found, earliest, latest = onset_of([0, 0, 0, 1.5, 3, 3, 3, 3], 3)
    assert earliest <= 3 <= latest
    assert earliest < latest
    assert found in (3, 4)


def test_what_grows_slowly_may_have_begun_before_it_was_clear() -> None:
    found, earliest, _ = onset_of([0, 0, 0.5, 1.2, 1.8, 2.4, 3, 4, 5, 6], 5)
    assert earliest < found


def test_missing_points_are_no_onset() -> None:
    found, _, _ = onset_of([0, 0, np.nan, np.nan, 6, 6], 6)
    assert found == 4


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=30), st.floats(-20, 20))
@settings(max_examples=60)
def test_the_interval_holds_the_onset(row: list[float], size: float) -> None:
    found, earliest, latest = onset_of(row, size)
    assert 0 <= earliest <= found <= latest < len(row)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_onset_of_a_step_of_five_sigmas_is_within_one_point(layout: str) -> None:
    where = LAYOUTS[layout]
    onsets, tables = [], []
    for n in range(60):
        random = np.random.default_rng(n)
        onsets.append(int(random.integers(where.before, where.points - 1)))
        values = Fault(5, onsets[-1]).applied(gaussian(random, where), 10)
        tables.append(rows(where, f"s{n:02}", "latency_ms", values))
    found = {f.subject: f for f in metric_shifts(case_of(where, tables))}
    near = [
        abs((f.onset - times(where)[onset]).total_seconds()) <= where.step_s
        for n, onset in enumerate(onsets)
        if (f := found.get(f"s{n:02}")) is not None and f.onset is not None
    ]
    assert len(near) >= 0.8 * len(onsets)
    assert np.mean(near) >= 0.9


@pytest.mark.parametrize("minutes", [-8, -15, -25])
def test_an_onset_inside_the_baseline_is_found_and_the_baseline_ends_there(
    tmp_path: Path, minutes: int
) -> None:
    (found,) = metric_shifts(
        write_case(tmp_path, metrics=series("api", "latency_ms", 100, 400, onset=minutes))
    )
    assert found.onset == START + timedelta(minutes=minutes)
    assert found.numbers["baseline"] == 100
    assert found.numbers["incident"] == 400


def test_a_burst_in_the_baseline_that_ended_moves_no_onset(tmp_path: Path) -> None:
    metrics = series("api", "latency_ms", 100, 400, onset=-20, until=-14)[:60]
    metrics += [r for r in series("api", "latency_ms", 100, 400, onset=5) if r["time"] >= at(0)]
    (found,) = metric_shifts(write_case(tmp_path, metrics=metrics))
    assert found.onset == START + timedelta(minutes=5)


def test_an_earlier_incident_in_the_baseline_hides_no_new_one(tmp_path: Path) -> None:
    metrics = series("api", "latency_ms", 100, 900, onset=-50, until=-42)[:60]
    metrics += [r for r in series("api", "latency_ms", 100, 300, onset=5) if r["time"] >= at(0)]
    (found,) = metric_shifts(write_case(tmp_path, metrics=metrics))
    assert found.numbers["baseline"] == 100
    assert found.strength > 0.7


def test_a_leak_that_began_before_the_window_is_dated_before_it(tmp_path: Path) -> None:
    metrics = [
        {
            "time": at(m),
            "service": "api",
            "signal": "heap_mb",
            "value": 500 + 20 * max(0, m + 25) + (m * 7) % 5,
        }
        for m in range(-60, 30)
    ]
    (found,) = metric_shifts(write_case(tmp_path, metrics=metrics))
    assert found.onset is not None
    assert START - timedelta(minutes=26) <= found.onset <= START - timedelta(minutes=15)
