"""When a series is out of its own noise, at the borders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.suspects.deviations import (
    Deviation,
    Points,
    deviation_of,
    deviations,
    usual_height,
)
from tests.analysis.cases import at, series, write_case

MINUTE = 60_000_000_000


def deviation(before: Sequence[float], now: Sequence[float]) -> Deviation | None:
    times = np.arange(len(before) + len(now), dtype=np.int64) * MINUTE
    return deviation_of(
        Points(
            service="web",
            signal="latency_ms",
            signal_class=SignalClass.LATENCY,
            labels={},
            before_times=times[: len(before)],
            before=np.asarray(before, dtype=np.float64),
            times=times[len(before) :],
            values=np.asarray(now, dtype=np.float64),
            least_noise=0.0,
        )
    )


def excess(before: Sequence[float], now: Sequence[float]) -> float:
    found = deviation(before, now)
    assert found is not None
    return found.excess


@pytest.mark.parametrize(("sigmas", "is_out"), [(2.5, False), (3.5, True)])
def test_a_calm_series_is_given_three_sigmas_of_noise(sigmas: float, *, is_out: bool) -> None:
    calm = [100.0 + wobble for wobble in (-1.0, 0.0, 1.0)] * 20
    centred = deviation(calm, [101.0] * 10)
    assert centred is not None
    sigma = (101.0 - centred.before) / float(centred.badness[-1])
    assert (excess(calm, [centred.before + sigmas * sigma] * 10) > 1) is is_out


@pytest.mark.parametrize(("outliers", "usual"), [(1, 4.0), (3, 9.0)])
def test_one_quiet_window_in_twenty_may_be_higher(outliers: int, usual: float) -> None:
    assert usual_height(np.array([4.0] * (41 - outliers) + [9.0] * outliers)) == usual


def test_two_points_are_no_past_and_three_are() -> None:
    assert deviation([100.0, 101.0], [300.0] * 5) is None
    assert deviation([100.0, 101.0, 102.0], [300.0] * 5) is not None


def test_of_two_quiet_windows_the_higher_is_usual() -> None:
    assert usual_height(np.array([4.0, 9.0])) == 9.0


def test_a_series_that_was_always_zero_is_out_by_ten_sigmas() -> None:
    assert 3 < excess([0.0] * 60, [1.0] * 30) < 4


@pytest.mark.parametrize(("requests", "share"), [(3, 1 / 5), (10, 1 / 10)])
def test_a_failure_among_very_few_requests_is_read_among_a_twentieth_of_the_usual(
    tmp_path: Path, requests: float, share: float
) -> None:
    rows = series("web", "requests", 100, requests, noise=0) + series("web", "errors", 0, 1)
    found = {one.signal: one for one in deviations(write_case(tmp_path, metrics=rows))}
    assert float(np.median(found["errors"].window_values)) == pytest.approx(share)


@pytest.mark.parametrize(("counted", "is_share"), [(0.75, False), (0.85, True)])
def test_failures_are_a_share_where_requests_were_counted_nearly_always(
    tmp_path: Path, counted: float, *, is_share: bool
) -> None:
    asked = series("web", "requests", 100, 100, noise=0)
    asked = [row for n, row in enumerate(asked) if n % 20 < 20 * counted]
    rows = asked + series("web", "errors", 0, 5, noise=0)
    found = {one.signal: one for one in deviations(write_case(tmp_path, metrics=rows))}
    assert (float(found["errors"].values.max()) < 1) is is_share


@pytest.mark.parametrize(("began", "canary_out"), [(10, {"canary": True}), (29, {})])
def test_a_part_that_began_in_the_incident_is_held_against_its_siblings(
    began: int, canary_out: dict[str, bool], tmp_path: Path
) -> None:
    rows = []
    for pod in ("a", "b"):
        old = series("web", "error_ratio", 0.01, 0.01)
        rows += [{**row, "labels": json.dumps({"pod": pod})} for row in old]
    canary = series("web", "error_ratio", 0.5, 0.5)
    first = datetime.fromisoformat(at(began))
    for row in canary:
        if datetime.fromisoformat(row["time"]) >= first:
            rows.append({**row, "labels": json.dumps({"pod": "canary"})})
    out = {}
    for deviation in deviations(write_case(tmp_path, metrics=rows)):
        out[deviation.labels["pod"]] = deviation.excess > 1
    # In its first two minutes it says nothing.
    assert out == {"a": False, "b": False} | canary_out
