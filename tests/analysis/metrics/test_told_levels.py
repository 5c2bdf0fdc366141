"""Which level a finding tells, where the move is no plain step, and in which unit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.metrics.shifts import metric_shifts
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import START, at, write_case


def shift(
    folder: Path,
    value: Callable[[int], float],
    signal: str = "latency_ms",
    alert: dict[str, Any] | None = None,
) -> Finding:
    """What is found of a series of one point a minute: an hour, and the half hour after it."""
    rows = [
        {"time": at(minute), "service": "api", "signal": signal, "value": value(minute)}
        for minute in range(-60, 31)
    ]
    (finding,) = metric_shifts(write_case(folder, metrics=rows, alert=alert))
    return finding


def noise(minute: int) -> float:
    return (minute * 7) % 5 - 2


def test_what_goes_on_rising_is_told_by_where_it_went(tmp_path: Path) -> None:
    finding = shift(tmp_path, lambda m: 100 + noise(m) + 50 * max(0, m - 5), "memory_mb")
    assert finding.numbers["incident"] == pytest.approx(1250, rel=0.1)


def test_what_falls_off_after_its_step_is_told_by_the_step(tmp_path: Path) -> None:
    finding = shift(tmp_path, lambda m: 100 + noise(m) + (400 if m >= 5 else 0) * 0.97 ** (m - 5))
    assert finding.numbers["incident"] == pytest.approx(420, rel=0.1)


def test_bursts_are_told_by_how_far_they_reach(tmp_path: Path) -> None:
    finding = shift(
        tmp_path, lambda m: 100 + noise(m) + (300 if m >= 5 and (m < 8 or m > 20) else 0)
    )
    assert finding.numbers["incident"] == pytest.approx(400, rel=0.05)


def test_a_few_failures_before_an_outage_are_not_its_onset(tmp_path: Path) -> None:
    def value(minute: int) -> float:
        if minute >= 10:
            return 0.9
        return 0.02 if minute >= 0 else 0.001 * (minute % 3)

    finding = shift(tmp_path, value, "error_ratio")
    assert finding.onset is not None
    assert (finding.onset - START).total_seconds() == 600


@pytest.mark.parametrize(
    ("threshold", "unit", "level", "text"),
    [
        (0.02, "ratio", 0.72, "72 %"),
        (2.0, "%", 0.72, "72 %"),
        (2.0, "%", 7.2, "7.2 %"),
        (2.0, None, 0.72, "0.72"),
    ],
)
def test_the_alert_s_threshold_says_what_no_name_does(
    tmp_path: Path, threshold: float, unit: str | None, level: float, text: str
) -> None:
    watches = {"signal_class": "errors", "threshold": threshold, "unit": unit}
    alert = {"service": "api", "signal": "errors", "watches": watches}
    finding = shift(tmp_path, lambda m: level if m >= 5 else level / 100, "errors", alert)
    assert f"to {text} " in finding.sentence
