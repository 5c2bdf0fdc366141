from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from faultline.analysis.diagnosis import diagnose
from faultline.analysis.metrics.shift_statistics import quiet_share
from faultline.analysis.metrics.shifts import metric_shifts
from faultline.analysis.vocabulary import Verdict
from tests.analysis.cases import at, series, write_case
from tests.analysis.simulated_series import LAYOUTS, healthy_case

YES, NO = np.array([True]), np.array([False])


def share(
    row: Sequence[float], width: int, score: float, *, up: bool = True, forgiven: bool = False
) -> float:
    """The share of one row."""
    return float(
        quiet_share(
            np.array([row]), width, np.array([score]), np.array([up]), np.array([forgiven])
        )[0]
    )


def test_a_calm_baseline_has_no_window_like_it() -> None:
    assert share([0.5, -0.5] * 20, 4, 10) == 0


def test_what_every_window_shows_is_usual() -> None:
    assert share([0, 0, 9, 0] * 10, 4, 7) == 1


def test_only_the_same_direction_counts() -> None:
    assert share([0, 0, 9, 0] * 10, 4, 7, up=False) == 0
    assert share([0, 0, -9, 0] * 10, 4, 7, up=False) == 1


def test_windows_half_as_bad_count_half() -> None:
    assert share([0, 0, 9, 0] * 10, 4, 14) == 0.5
    assert share([0, 0, 9, 0] * 10, 4, 15) == 0


def test_one_burst_is_in_as_many_windows_as_it_fits() -> None:
    assert 5 / 16 <= share([0] * 10 + [9] + [0] * 9, 5, 7) <= 6 / 16


def test_one_earlier_incident_can_be_forgiven_and_a_second_not() -> None:
    once = [0.0] * 10 + [9.0] + [0.0] * 19
    assert share(once, 5, 7, forgiven=True) == 0
    assert share([*once, *once], 5, 7, forgiven=True) == pytest.approx(
        share([*once, *once], 5, 7) / 2
    )


def test_gaps_are_no_quiet_windows() -> None:
    assert share([float("nan")] * 20 + [9, 0, 0, 0], 4, 7) == 1


def test_a_baseline_shorter_than_the_window_is_one_window() -> None:
    assert share([0, 9, 0], 10, 7) == 1


def test_bursts_that_come_all_the_time_are_discounted(tmp_path: Path) -> None:
    bursts = [at(m) for m in range(-55, 30, 10)]
    rows = series("api", "queue_depth", 20, 20)
    rows = [{**r, "value": r["value"] * (6 if r["time"] in bursts else 1)} for r in rows]
    rows = [{**r, "value": 140} if r["time"] == at(15) else r for r in rows]
    rows += series("web", "queue_depth", 20, 140, onset=10)
    strengths = {f.subject: f.strength for f in metric_shifts(write_case(tmp_path, metrics=rows))}
    assert strengths.get("api", 0) < 0.1 < 0.8 < strengths["web"]


def test_a_spike_among_many_points_says_little_unless_it_is_the_alert_s_own(tmp_path: Path) -> None:
    rows = series("api", "latency_ms", 100, 900, onset=10, until=11)
    (other,) = metric_shifts(write_case(tmp_path / "a", metrics=rows, alert={"service": "web"}))
    own = write_case(tmp_path / "b", metrics=rows, alert={"service": "api", "signal": "latency_ms"})
    assert other.strength < 0.3 < metric_shifts(own)[0].strength


@pytest.mark.parametrize("layout", ["live", "days"])
def test_healthy_series_of_every_kind_rarely_give_a_cause(layout: str) -> None:
    alarms = 0
    for seed in range(8):
        found = diagnose(healthy_case(np.random.default_rng(1000 + seed), LAYOUTS[layout]))
        alarms += found.verdict in (Verdict.CAUSE_FOUND, Verdict.RECOVERED)
    assert alarms <= 2
