"""Has the alerting signal left its baseline at all, is it back there at the end of the window, and
since when?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import metric_windows
from faultline.analysis.kinds.finding_details import AlertHistoryDetails, RecoveryDetails
from faultline.analysis.kinds.finding_kinds import ALERT_IN_RANGE, SIGNAL_RECOVERED
from faultline.analysis.kinds.signals import SYMPTOMS, SignalClass
from faultline.analysis.metrics.alert_threshold import SignalPoints, signal_points
from faultline.analysis.metrics.series import SIGNALS as GPU_SIGNALS
from faultline.analysis.metrics.shifts import KIND as METRIC_SHIFT
from faultline.analysis.metrics.shifts import MIN_BASELINE_POINTS, shift_class
from faultline.analysis.metrics.usual_moves import usual_moves
from faultline.analysis.vocabulary import Alert, Finding
from faultline.analysis.wording.phrases import number, plain, rounded

KIND = SIGNAL_RECOVERED.name

PERSISTS = 0.4
"""A symptom at least this strong that is still there means the incident is not over."""
LEFT = 0.1
"""A weaker move of the alerting signal is one that its baseline makes as well: it has not left
it."""
HALF_WAY = 0.5
"""A point is still out when it lies nearer to the incident's level than to the baseline's."""


@dataclass(frozen=True)
class AlertState:
    """`comparable`: the alerting signal has points in baseline and incident. The findings are those
    about it."""

    comparable: bool
    findings: tuple[Finding, ...]
    persisting: tuple[Finding, ...]
    recovered_symptoms: tuple[Finding, ...]
    usual: frozenset[str] = frozenset()
    """Ids of findings whose moves the baseline makes all the time: they are no sign of an
    incident."""

    @property
    def never_left(self) -> bool:
        """The alerting signal was checked and stayed in its baseline."""
        return self.comparable and not self.findings

    @property
    def recovered(self) -> bool:
        """The alerting signal, or without one every clear symptom, is back to its baseline, and
        nothing persists."""
        about = self.findings or self.recovered_symptoms
        return bool(about) and all(f.details.recovered for f in about) and not self.persisting


def alert_state(case: Case, findings: Sequence[Finding]) -> AlertState:
    """The state of the alerting signal by the metric findings."""
    usual = frozenset(usual_moves(case, findings))
    about: list[Finding] = []
    persisting: list[Finding] = []
    recovered: list[Finding] = []
    for finding in findings:
        if finding.kind != METRIC_SHIFT or not finding.details.bad:
            continue
        if (finding.id or finding.sentence) in usual:
            continue
        if is_about_alert(finding, case.alert):
            about.append(finding)
        if shift_class(finding) not in SYMPTOMS:
            continue
        if not finding.details.recovered:
            is_alerting = finding.subject == case.alert.service
            if finding.strength >= (LEFT if is_alerting else PERSISTS):
                persisting.append(finding)
        elif finding.strength >= PERSISTS and shift_class(finding) is not SignalClass.RESTARTS:
            # A count of restarts comes back by itself, whatever goes on.
            recovered.append(finding)
    return AlertState(
        comparable=_is_comparable(case),
        findings=tuple(about),
        persisting=tuple(persisting),
        recovered_symptoms=tuple(recovered),
        usual=usual,
    )


def is_about_alert(finding: Finding, alert: Alert) -> bool:
    """Whether a finding says that the alerting signal left its baseline."""
    same = finding.subject == alert.service and finding.signal == alert.signal
    moved = finding.kind == METRIC_SHIFT and finding.details.bad
    return bool(moved) and same and finding.strength >= LEFT


def recoveries(case: Case, findings: Sequence[Finding]) -> list[Finding]:
    """When the alerting signal, or without one the clearest symptom, came back and how long it had
    been away."""
    state = alert_state(case, findings)
    if not state.recovered:
        return []
    candidates = state.findings or state.recovered_symptoms
    about = max(candidates, key=lambda f: (f.strength, f.subject, f.signal or ""))
    back = recovered_at(case, about)
    if about.onset is None or back is None or back <= about.onset:
        return []
    lasted = rounded((back - about.onset).total_seconds() / 60, 3)
    name = f"{plain(about.subject)} {plain(about.signal or '')}"
    finding = Finding(
        id="",
        kind=KIND,
        subject=about.subject,
        signal=about.signal,
        onset=back,
        strength=about.strength,
        sentence=f"{name} came back to its baseline after about {number(lasted, 3)} min.",
        numbers={"lasted_min": lasted},
        evidence=about.evidence,
        series=about.series,
        details=RecoveryDetails(left_at=about.onset.isoformat(), recovered=True),
    )
    return [finding]


def recovered_at(case: Case, finding: Finding) -> datetime | None:
    """The first point after the last one that was out; None where the series is still out, or not
    there."""
    before, during = finding.numbers.get("baseline"), finding.numbers.get("incident")
    if before is None or during is None or finding.onset is None:
        return None
    time, value = pl.col("time"), pl.col("value")
    rows = _finite_rows(case, finding.subject, finding.signal)
    rows = rows.filter(metric_windows(case).in_search("time"), time >= finding.onset)
    # Labels split a series: its level is the mean over them.
    rows = rows.group_by("time").agg(value.mean()).sort("time")
    # The nearer of the two levels decides, whatever the noise is.
    half = before + HALF_WAY * (during - before)
    out = rows.filter(value >= half if during > before else value <= half)
    if not out.height:
        # If nothing was ever out, there is no time at which it came back.
        return None
    after = rows.filter(time > out["time"].max())["time"].min()
    return after.astimezone(UTC) if isinstance(after, datetime) else None


def _finite_rows(case: Case, service: str, signal: str | None) -> pl.DataFrame:
    return case.metrics.filter(
        pl.col("service") == service, pl.col("signal") == signal, pl.col("value").is_finite()
    )


def _is_comparable(case: Case) -> bool:
    """Whether the alerting signal could be compared. What GPUs report is never read as a shift."""
    alert = case.alert
    if not alert.service or not alert.signal or alert.signal in GPU_SIGNALS:
        return False
    if not case.metrics.height:
        return False
    windows = metric_windows(case)
    counts = _finite_rows(case, alert.service, alert.signal).select(
        windows.in_baseline("time").sum().alias("before"),
        windows.in_search("time").sum().alias("now"),
    )
    before, now = counts.row(0)
    return bool(before >= MIN_BASELINE_POINTS and now >= 1)


# Where the alerting signal stands against its quiet past, said only where it stayed within it.

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
