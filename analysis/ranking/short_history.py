"""What is said where the sources hold little from before the incident, or nothing."""

from __future__ import annotations

from datetime import datetime

from analysis.case.folder import Case
from analysis.wording.amounts import SECONDS, amount


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
