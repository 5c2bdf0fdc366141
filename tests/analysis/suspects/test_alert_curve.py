"""When an alerting signal has a course in time, and how far another series goes with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.suspects.deviations import Deviation
from faultline.analysis.suspects.explanations import AlertCurve, alert_curve
from tests.analysis.cases import START, write_case

MINUTE = 60_000_000_000
FIRST = int(START.timestamp() * 1e9)


def deviation(badness: Sequence[float]) -> Deviation:
    times = FIRST + np.arange(len(badness), dtype=np.int64) * MINUTE
    level = np.asarray(badness, dtype=np.float64)
    return Deviation(
        "web", "latency_ms", SignalClass.LATENCY, {}, times, level, level, len(level), 0.0, 2.0, 9
    )


def curve_of(badness: Sequence[float]) -> AlertCurve:
    one = deviation(badness)
    return AlertCurve(one.times, one.badness, one)


@pytest.mark.parametrize(
    ("badness", "has_one"),
    [
        ([0.1, 0.2, 1.5, 1.4], False),
        ([0.1, 0.2, 2.5, 2.4], True),
        ([9.0, 9.0], False),
        ([9.0, 9.0, 9.0], True),
    ],
)
def test_two_sigmas_and_three_points_make_a_course_in_time(
    tmp_path: Path, badness: list[float], *, has_one: bool
) -> None:
    assert (alert_curve(write_case(tmp_path), deviation(badness)) is not None) is has_one


def test_a_series_of_two_points_neither_agrees_nor_disagrees() -> None:
    curve = curve_of([0.0] * 10 + [1.0] * 10)
    assert curve.agreement(deviation([9.0, 9.0])) > curve.agreement(deviation([9.0, 9.0, 9.0]))


def test_disagreement_in_time_leaves_a_twentieth() -> None:
    calm_first = curve_of([0.0] * 10 + [1.0] * 10)
    agreement = calm_first.agreement(deviation([9.0] * 9 + [0.0] * 11))
    assert 0.04 < agreement < 0.06


@pytest.mark.parametrize(("calm", "agrees"), [(0.3, True), (0.7, False)])
def test_an_alert_that_is_bad_throughout_has_no_calm_to_compare_with(
    calm: float, *, agrees: bool
) -> None:
    curve = curve_of([1.0] * 10 + [1.0 - calm / 6] * 6 + [1.0] * 10)
    other = deviation([0.0] * 11 + [5.0] * 4 + [0.0] * 11)
    assert (curve.agreement(other) > 0.06) is agrees
