from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from faultline.analysis.metrics.recovery import alert_state, recovered_at
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import START, series, write_case

ALERT = {"service": "web", "signal": "latency_ms"}


def rise(strength: float = 0.7) -> Finding:
    """The alerting signal's rise from 100 to 200."""
    return Finding(
        id="F1",
        kind="metric_shift",
        subject="web",
        signal="latency_ms",
        onset=START,
        strength=strength,
        sentence="web latency_ms rose from 100 to 200 (2x).",
        numbers={"baseline": 100, "incident": 200},
        details={"class": "latency", "direction": "up", "bad": True, "recovered": False},
    )


@pytest.mark.parametrize(("strength", "left"), [(0.08, False), (0.12, True)])
def test_a_weak_move_of_the_signal_does_not_leave_its_baseline(
    tmp_path: Path, strength: float, *, left: bool
) -> None:
    case = write_case(tmp_path, alert=ALERT, metrics=series("web", "latency_ms", 100, 200))
    assert alert_state(case, [rise(strength)]).never_left is not left


@pytest.mark.parametrize(("afterwards", "back_after_min"), [(140, 10), (160, None)])
def test_a_signal_is_back_when_it_is_nearer_to_its_baseline(
    tmp_path: Path, afterwards: float, back_after_min: float | None
) -> None:
    rows = series("web", "latency_ms", afterwards, 200, until=10)
    back = recovered_at(write_case(tmp_path, alert=ALERT, metrics=rows), rise())
    expected = START + timedelta(minutes=back_after_min) if back_after_min else None
    assert back == expected


def symptom(subject: str, signal: str, kind: str, *, recovered: bool, strength: float) -> Finding:
    return rise(strength).model_copy(
        update={
            "subject": subject,
            "signal": signal,
            "sentence": f"{subject} {signal} rose.",
            "details": rise().details.model_copy(
                update={"signal_class": kind, "recovered": recovered}
            ),
        }
    )


def test_a_restart_that_is_over_is_no_recovery_while_the_alerting_service_is_slow(
    tmp_path: Path,
) -> None:
    metrics = series("web", "latency_ms", 100, 200)
    case = write_case(tmp_path, alert={"service": "web"}, metrics=metrics)
    restarted = symptom("db", "restarts", "restarts", recovered=True, strength=0.9)
    slow = symptom("web", "latency_ms", "latency", recovered=False, strength=0.2)
    fast_again = symptom("db", "latency_ms", "latency", recovered=True, strength=0.9)
    assert not alert_state(case, [restarted]).recovered
    assert alert_state(case, [fast_again, restarted]).recovered
    assert not alert_state(case, [fast_again, slow]).recovered
