"""Has the alerting signal left its baseline at all, and is it back there at the end of the window?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from analysis.case_folder import Case
from analysis.gpu_signals import SIGNALS as GPU_SIGNALS
from analysis.metric_shifts import KIND as METRIC_SHIFT
from analysis.metric_shifts import MIN_BASELINE_POINTS, shift_class
from analysis.signals import SYMPTOMS
from analysis.vocabulary import Finding
from analysis.windows import metric_windows

PERSISTS = 0.4
"""A symptom at least this strong that is still there means the incident is not over."""


@dataclass(frozen=True)
class AlertState:
    """`known`: the alerting signal has points in baseline and incident. The findings are those about it."""

    known: bool
    findings: tuple[Finding, ...]
    persisting: tuple[Finding, ...]
    recovered_symptoms: tuple[Finding, ...]

    @property
    def never_left(self) -> bool:
        """The alerting signal was looked at and stayed in its baseline."""
        return self.known and not self.findings

    @property
    def recovered(self) -> bool:
        """The alerting signal, or without one every clear symptom, is back to its baseline, and nothing persists."""
        about = self.findings or self.recovered_symptoms
        return bool(about) and all(f.details.get("recovered") for f in about) and not self.persisting


def alert_state(case: Case, findings: Sequence[Finding]) -> AlertState:
    """The state of the alerting signal by the metric findings."""
    metric = [f for f in findings if f.kind == METRIC_SHIFT and f.details.get("bad")]
    about = tuple(f for f in metric if f.subject == case.alert.service and f.signal == case.alert.signal)
    symptoms = [f for f in metric if shift_class(f) in SYMPTOMS and f.strength >= PERSISTS]
    return AlertState(
        known=_known(case),
        findings=about,
        persisting=tuple(f for f in symptoms if not f.details.get("recovered")),
        recovered_symptoms=tuple(f for f in symptoms if f.details.get("recovered")),
    )


def _known(case: Case) -> bool:
    alert = case.alert
    if not (alert.service and alert.signal and case.metrics.height) or alert.signal in GPU_SIGNALS:
        return False
    windows = metric_windows(case)
    points = case.metrics.filter(
        pl.col("service") == alert.service, pl.col("signal") == alert.signal, pl.col("value").is_finite()
    )
    counts = points.select(
        windows.in_baseline("time").sum().alias("before"), windows.in_search("time").sum().alias("now")
    )
    before, now = counts.row(0)
    return bool(before >= MIN_BASELINE_POINTS and now >= 1)
