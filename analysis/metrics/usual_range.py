"""Where the alerting signal stands against its quiet past, said only where it stayed within it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import AlertHistoryDetails
from faultline.analysis.kinds.finding_kinds import ALERT_IN_RANGE
from faultline.analysis.metrics.alert_threshold import SignalPoints, signal_points
from faultline.analysis.metrics.gpu_signals import SIGNALS as GPU_SIGNALS
from faultline.analysis.metrics.recovery import is_about_alert
from faultline.analysis.metrics.shifts import MIN_BASELINE_POINTS
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import number, plain, rounded

LOW, HIGH = 1.0, 99.0
"""Percentiles of the baseline between which a level is called usual. The range without its farthest
points: one slow minute of a week would otherwise make everything usual."""
STRENGTH = 0.1
"""It accuses nobody and only says what was seen."""


def usual_range(case: Case, findings: Sequence[Finding]) -> list[Finding]:
    """One finding where the alerting signal never left its usual range; none where it moved, or
    cannot be compared."""
    alert, points = case.alert, signal_points(case)
    if points is None or alert.signal in GPU_SIGNALS:
        return []
    if len(points.before[1]) < MIN_BASELINE_POINTS or not len(points.now[1]):
        return []
    if any(is_about_alert(finding, alert) for finding in findings):
        return []
    return _within(case, points)


def _within(case: Case, points: SignalPoints) -> list[Finding]:
    now = float(np.median(points.now[1]))
    low, high = np.percentile(points.before[1], (LOW, HIGH))
    if not low <= now <= high:
        return []
    service, signal = case.alert.service or "", case.alert.signal or ""
    numbers = {"now": rounded(now, 4), "low": rounded(low, 4), "high": rounded(high, 4)}
    span = f"{number(numbers['low'])} to {number(numbers['high'])}"
    finding = Finding(
        id="",
        kind=ALERT_IN_RANGE.name,
        subject=service,
        signal=signal,
        strength=STRENGTH,
        sentence=f"{plain(service)} {plain(signal)} is {number(numbers['now'])}, "
        f"inside its usual range of {span}.",
        numbers=numbers,
        evidence=case.evidence_ids("metrics"),
        series={"table": "metrics", "service": service, "signal": signal},
        details=AlertHistoryDetails(unit=points.unit),
    )
    return [finding]
