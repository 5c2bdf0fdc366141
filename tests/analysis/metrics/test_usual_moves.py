from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.metrics.usual_moves import usual_moves
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import at, write_case

RISE = Finding(
    id="F1",
    kind="metric_shift",
    subject="web",
    signal="latency_ms",
    strength=0.7,
    sentence="web latency_ms rose from 100 to 450 (4.5x).",
    numbers={"baseline": 100, "incident": 450},
    details={"class": "latency", "direction": "up", "bad": True, "recovered": False},
)


@pytest.mark.parametrize(("peaks", "usual"), [(2, False), (4, True)])
def test_a_move_is_usual_that_every_other_window_shows(
    tmp_path: Path, peaks: int, *, usual: bool
) -> None:
    high = [5, *(-170 + 40 * n for n in range(peaks))]
    rows = [
        {
            "time": at(minute),
            "service": "web",
            "signal": "latency_ms",
            "value": 450 if minute in high else 100,
        }
        for minute in range(-180, 30)
    ]
    case = write_case(tmp_path, metrics=rows, scope={"baseline": [[at(-180), at(0)]]})
    assert bool(usual_moves(case, [RISE])) is usual
