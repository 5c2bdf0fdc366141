"""What is said where the sources hold little from before the incident, or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_kinds import LOG_NEW, LOG_SURGE, METRIC_SHIFT
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.amounts import SECONDS, amount

BEGIN_WITH_DATA = frozenset({METRIC_SHIFT.name, LOG_NEW.name, LOG_SURGE.name})
"""What begins wherever the data does: nothing was counted before, and every line is new."""
FIRST_SAMPLES = timedelta(minutes=2)
"""Sources of one system begin within a few intervals of each other."""


def without_first_samples(case: Case, findings: Iterable[Finding]) -> list[Finding]:
    """The findings, but for those that begin when the data does, where there is nothing to compare
    with."""
    since = case.scope.data_since
    if since is None or not has_no_past(case):
        return list(findings)

    def is_first(finding: Finding) -> bool:
        began = finding.onset
        return began is not None and began <= since + FIRST_SAMPLES

    return [
        finding
        for finding in findings
        if finding.kind not in BEGIN_WITH_DATA or not is_first(finding)
    ]


def has_no_past(case: Case) -> bool:
    """Whether the sources began so late that the windows could not be fitted to what they hold."""
    since = case.scope.data_since
    # A window that could be moved to what the sources hold begins no earlier than they do.
    return since is not None and bool(case.scope.baseline) and case.scope.baseline[0].start < since


def short_history(case: Case) -> str | None:
    """One sentence; None where there is enough to compare with, or nobody knows since when there is
    data."""
    since, began = case.scope.data_since, case.alert.started_at
    if since is None or not case.scope.baseline:
        return None
    begins = f"The data begins at {_clock(since, began)} UTC"
    baseline = case.scope.baseline[0]
    if since >= began:
        return (
            f"{begins}, after the incident: nothing shows what was normal before it. If it began "
            "later, say when."
        )
    if baseline.start < since:
        before = amount((began - since).total_seconds(), SECONDS)
        return (
            f"{begins}, only {before} before the incident: too little to know what is normal. Ask "
            "again about a later time."
        )
    return f"{begins}, so what is normal is known from {amount(baseline.seconds, SECONDS)} alone."


def _clock(time: datetime, near: datetime) -> str:
    """The time of day, with the date where that is another one."""
    return f"{time:%H:%M}" if time.date() == near.date() else f"{time:%Y-%m-%d %H:%M}"
