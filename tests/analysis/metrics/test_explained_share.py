from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.metrics.explained_share import (
    calls_per_request,
    explained_share,
    measured,
    slower_by,
)
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import series, write_case


@pytest.mark.parametrize(
    ("callee", "caller", "calls", "share"),
    [
        ({"p99": 100.0}, {"p99": 100.0}, 1, 1.0),
        ({"p99": 1.0}, {"p99": 300.0}, 1, 0.01),
        ({"p99": 1.0}, {"p99": 300.0}, 20, 0.2),
        ({"p50": 1.0}, {"p99": 300.0}, 1, None),
        ({"p99": 1.0}, {"p99": -5.0}, 1, None),
        ({}, {}, 1, None),
    ],
)
def test_the_share_that_is_explained(
    callee: dict[str, float], caller: dict[str, float], calls: float, share: float | None
) -> None:
    assert explained_share(callee, caller, calls) == (
        None if share is None else pytest.approx(share)
    )


def test_calls_per_request_are_bounded_and_assumed_where_unmeasured(tmp_path: Path) -> None:
    rows = (
        series("api", "requests", 10, 10)
        + series("db", "requests", 90, 90)
        + series("log", "requests", 9e5, 9e5)
    )
    known = measured(write_case(tmp_path, metrics=rows))
    assert calls_per_request("db", "api", known) == pytest.approx(9, rel=0.05)
    assert calls_per_request("log", "api", known) == 20
    assert calls_per_request("api", "db", known) == 1
    assert calls_per_request("cache", "api", known) == 3


@pytest.mark.parametrize(
    ("signal", "signal_class", "direction", "rises"),
    [
        ("latency_p99_ms", "latency", "up", {"latency_p99_ms": 300.0}),
        ("latency_p99_ms", "latency", "down", {}),
        ("error_count", "errors", "up", {}),
    ],
)
def test_a_rise_is_that_of_a_latency_from_its_baseline(
    signal: str, signal_class: str, direction: str, rises: dict[str, float]
) -> None:
    finding = Finding(
        id="F1",
        kind="metric_shift",
        subject="web",
        signal=signal,
        strength=0.9,
        sentence="?",
        numbers={"baseline": 100.0, "incident": 400.0},
        details={"direction": direction, "class": signal_class},
    )
    assert slower_by([finding]) == rises
