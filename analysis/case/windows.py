"""Which rows are the baseline and which are searched for the incident, per table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.vocabulary import Window

RUN_UP = timedelta(minutes=30)
"""Without a baseline the incident may have begun this long before the alert; earlier rows are the
baseline."""

ANOTHER_DAY = timedelta(hours=12)
"""Baseline windows that end this long before the latest one are history: the same hours of earlier
days."""


@dataclass(frozen=True)
class Windows:
    """The baseline windows, and the window in which an onset is looked for."""

    baseline: tuple[Window, ...]
    search: Window

    @property
    def recent(self) -> datetime | None:
        """The start of the baseline that leads up to the search, when earlier windows are of
        earlier days."""
        latest = max(self.baseline, key=lambda w: w.end, default=None)
        baselines = [w for w in self.baseline if w is not latest]
        if latest is None or not any(latest.start - w.end >= ANOTHER_DAY for w in baselines):
            return None
        return min(w.start for w in self.baseline if latest.start - w.end < ANOTHER_DAY)

    def in_baseline(self, time: str) -> pl.Expr:
        """Rows of the baseline, by the name of the time column."""
        at = pl.col(time)
        conditions = [(at >= _moment(w.start)) & (at < _moment(w.end)) for w in self.baseline]
        return pl.any_horizontal(conditions) if conditions else pl.lit(value=False)

    def in_search(self, time: str) -> pl.Expr:
        """Rows that are searched, by the name of the time column. The end belongs to the window."""
        at = pl.col(time)
        return (at >= _moment(self.search.start)) & (at <= _moment(self.search.end))

    def side(self, time: str, *, searched: str | int, baseline: str | int) -> pl.Expr:
        """One value for searched rows and another for the baseline's; the search wins where they
        overlap, and other rows are null."""
        in_search = pl.when(self.in_search(time)).then(pl.lit(searched))
        return in_search.when(self.in_baseline(time)).then(pl.lit(baseline))

    def both_in(self, table: pl.DataFrame, time: str) -> bool:
        """Whether the table has rows of the baseline and rows that are searched."""
        before, searched = self.in_baseline(time).any(), self.in_search(time).any()
        return all(table.select(before.alias("before"), searched.alias("searched")).row(0))


def metric_windows(case: Case) -> Windows:
    """Windows for metrics, monitors and changes."""
    return _windows(case, case.metrics, "time", case.scope.baseline)


def log_windows(case: Case) -> Windows:
    """Windows for logs."""
    baseline_logs = case.scope.baseline_logs
    return _windows(
        case, case.logs, "time", case.scope.baseline if baseline_logs is None else baseline_logs
    )


def span_windows(case: Case) -> Windows:
    """Windows for spans."""
    baseline_spans = case.scope.baseline_spans
    return _windows(
        case, case.spans, "start", case.scope.baseline if baseline_spans is None else baseline_spans
    )


def _windows(case: Case, table: pl.DataFrame, time: str, baseline: tuple[Window, ...]) -> Windows:
    incident = case.scope.incident
    if baseline:
        return Windows(baseline, incident)
    first = _first(table, time)
    alert = case.alert.started_at
    if first is None or first >= alert:
        return Windows((), incident)
    cut = max(alert - RUN_UP, first + (alert - first) / 2)
    return Windows((Window(start=first, end=cut),), Window(start=cut, end=max(incident.end, cut)))


def _first(table: pl.DataFrame, time: str) -> datetime | None:
    first = table[time].min() if table.height else None
    return first if isinstance(first, datetime) else None


# Polars takes a millisecond to make one, and a diagnosis compares with the same few times a hundred
# times.
@lru_cache(maxsize=256)
def _moment(time: datetime) -> pl.Expr:
    return pl.lit(time)
