"""Which rows are the baseline and which are searched for the incident, per table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.tables import ORIGIN
from faultline.analysis.vocabulary import Evidence, Finding, Window

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


# Which items of evidence a finding cites: those that its own rows came with.

_Rows = tuple[str, str | None, str | None]
"""Table, service, and of spans the operation; None for all operations."""


def citing_matching_rows(findings: Iterable[Finding], case: Case) -> list[Finding]:
    """Each finding with those of its citations that may hold the rows it is about, by the service
    and the signal of its series, by the change, and by what its log lines and spans say of where
    they are from; with all of them where none may, and where it has no series.

    What reaches into the incident comes first, because an answer links to the first.
    """
    citations: _Citations | None = case.derived.get("citations")
    if citations is None:
        since = case.scope.incident.start
        places: dict[str, int] = {}
        for number, item in enumerate(case.evidence):
            is_before = item.window is not None and item.window.end <= since
            places[item.id] = number + len(case.evidence) * is_before
        citations = _Citations({item.id: item for item in case.evidence}, places)
        for table, by in (("logs", ["service"]), ("spans", ["service", "operation"])):
            # Of a single item there is nothing to choose.
            if len(case.evidence_ids(table)) > 1:
                _add_rows(citations.origins, table, getattr(case, table), by)
        case.derived["citations"] = citations
    return [citations.narrow(finding) for finding in findings]


@dataclass
class _Citations:
    """The items of a case, and which of them brought whose log lines and spans."""

    items: Mapping[str, Evidence]
    places: Mapping[str, int]
    """Where each item stands among the others, those of the baseline alone behind them."""
    origins: dict[_Rows, set[str | None]] = field(default_factory=dict)
    """None stands for rows that do not say where they are from."""

    def narrow(self, finding: Finding) -> Finding:
        """The finding with the citations of its own rows."""
        about = finding.series
        if not {"service", "signal"} & set(about) and about.get("table") != "changes":
            return finding
        # Rows of a folder that somebody wrote may name items that are not there.
        evidence = [item_id for item_id in finding.evidence if item_id in self.items]
        matching_evidence = [
            item_id for item_id in evidence if self._may_hold(self.items[item_id], about)
        ]
        if not any(self.items[item_id].kind == about.get("table") for item_id in matching_evidence):
            matching_evidence = evidence
        matching_evidence.sort(key=lambda item_id: self.places.get(item_id, 0))
        return finding.model_copy(update={"evidence": tuple(matching_evidence)})

    def _may_hold(self, item: Evidence, about: Mapping[str, str]) -> bool:
        # Only rows of the table that a chart of the finding shows have these names.
        if item.kind != about.get("table"):
            return True
        service = about.get("service")
        origin = self.origins.get((item.kind, service, about.get("operation")))
        if origin:
            # A row that several queries brought is that of the first.
            return item.id in origin or (None in origin and item.services is None)
        change = about.get("id") if item.kind == "changes" else None
        return item.may_show(service, about.get("signal"), change)


def _add_rows(
    origins: dict[_Rows, set[str | None]], table: str, rows: pl.DataFrame, by: Sequence[str]
) -> None:
    if rows[ORIGIN].null_count() == rows.height:
        return
    for service, *operation, item_id in rows.select(*by, ORIGIN).unique().iter_rows():
        origins.setdefault((table, service, None), set()).add(item_id)
        for name in operation:
            origins.setdefault((table, service, name), set()).add(item_id)
