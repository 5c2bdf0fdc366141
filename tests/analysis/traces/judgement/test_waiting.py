from __future__ import annotations

import pytest

from faultline.analysis.traces.judgement.thresholds import severity_of


@pytest.mark.parametrize(
    ("share", "steps", "severity"),
    [(0.15, 100, "warning"), (0.2, 19, "warning"), (0.2, 20, "critical"), (0.5, 1, "warning")],
)
def test_few_steps_are_never_critical(share: float, steps: int, severity: str) -> None:
    assert severity_of(share, steps) == severity
