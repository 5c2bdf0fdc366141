from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.kinds.signals import classify
from faultline.analysis.requests.topology import read_topology
from faultline.analysis.suspects.explanations import weigh_suspects
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import write_case


def move(service: str, signal: str, strength: float) -> Finding:
    """A bad move of a metric."""
    return Finding(
        id="",
        kind="metric_shift",
        subject=service,
        signal=signal,
        strength=strength,
        sentence=f"{service} {signal} rose from 100 to 400 (4x).",
        numbers={"baseline": 100, "incident": 400},
        details={"class": classify(signal), "direction": "up", "bad": True},
    )


@pytest.mark.parametrize(("latency_strength", "first"), [(0.4, "unknown"), (0.6, "slow")])
def test_a_signal_that_nobody_knows_accuses_about_half_as_much_as_a_latency(
    tmp_path: Path, latency_strength: float, first: str
) -> None:
    case = write_case(tmp_path)
    findings = [move("slow", "latency_ms", latency_strength), move("unknown", "gizmos", 1.0)]
    assert weigh_suspects(findings, read_topology(case), case.alert)[0].subject == first
