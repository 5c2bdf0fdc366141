"""The rows behind a finding, few enough to read: points of its series, lines, spans, changes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import log_windows, metric_windows, span_windows
from faultline.analysis.kinds.finding_details import LineDetails, ObservationDetails
from faultline.analysis.vocabulary import Finding, Window
from faultline.bot.investigation.model.tools.metric_rows import (
    SeriesSummary,
    metric_rows,
    summaries,
)
from faultline.bot.investigation.model.tools.series import means
from faultline.bot.mcp.outgoing import Exact, when

MOST_SERIES = 4
MOST_POINTS = 40
"""Of each series in the incident, and as many before it."""
MOST_ROWS = 15
LONGEST = 300
LEAST_STEP_S = 1
TABLES = ("logs", "spans", "changes", "monitors", "states", "topology")
SHOWN: Mapping[str, tuple[str, ...]] = {
    "logs": ("time", "service", "level", "message"),
    "spans": ("start", "service", "operation", "duration_us", "status", "trace_id"),
    "changes": ("time", "service", "kind", "id", "title", "author"),
    "monitors": ("monitor", "service", "state", "since"),
    "states": ("kind", "name", "fact", "service", "value", "expected", "since"),
    "topology": ("caller", "callee", "source"),
}


def values_of(case: Case, finding: Finding) -> dict[str, Any]:
    """The values of the rows that a finding is about. Reads tables, so it blocks."""
    where = dict(finding.series)
    table = where.pop("table", "")
    if table == "metrics":
        return _series(case, where)
    if table in TABLES:
        return _rows(case, table, where, finding)
    details = ObservationDetails.of(finding)
    if details is not None and details.points:
        return {"points": [[Exact(at), value] for at, value in details.points]}
    return {"rows": [], "note": "this finding is about no single series or table"}


def _series(case: Case, where: Mapping[str, str]) -> dict[str, Any]:
    metrics = _matching(case.metrics, where)
    windows = metric_windows(case)
    rows = metric_rows(metrics, windows)
    series_summaries = summaries(case, metrics)
    # Of several baselines, the one closest to the incident.
    before = max(windows.baseline, key=lambda window: window.end, default=None)
    shown = []
    for summary in series_summaries[:MOST_SERIES]:
        points = rows.filter(
            pl.col("signal") == summary.signal,
            pl.col("labels") == summary.labels,
            pl.col("service") == summary.service,
        )
        shown.append(
            {
                **_summed(summary),
                "incident_points": _points(points, windows.search),
                "baseline_points": _points(points, before) if before else [],
            }
        )
    value: dict[str, Any] = {"series": shown}
    if len(series_summaries) > MOST_SERIES:
        value["more_series"] = len(series_summaries) - MOST_SERIES
    return value


def _summed(summary: SeriesSummary) -> dict[str, Any]:
    return {
        "service": summary.service,
        "signal": summary.signal,
        "unit": summary.unit,
        "labels": summary.labels,
        "medians": {"baseline": summary.before, "incident": summary.now, "ratio": summary.ratio},
        "usual_range": [summary.usual_low, summary.usual_high],
        "departed": summary.departed,
    }


def _points(rows: pl.DataFrame, window: Window) -> list[list[Any]]:
    """Means of equal parts of the time that has points, each with where its part begins."""
    inside = rows.filter(pl.col("time").is_between(window.start, window.end))["time"]
    if not len(inside):
        return []
    first, last = inside.min(), inside.max()
    assert isinstance(first, datetime)
    assert isinstance(last, datetime)
    # Round up, so that at most MOST_POINTS parts result.
    step = max(LEAST_STEP_S, -(-int((last - first).total_seconds() + 1) // MOST_POINTS))
    # Half-open, and the last point belongs to it.
    closed_window = Window(start=first, end=last + timedelta(seconds=1))
    return [[when(at), value] for at, value in means(rows, closed_window, step)]


def _rows(case: Case, table: str, where: Mapping[str, str], finding: Finding) -> dict[str, Any]:
    table_rows = _matching(getattr(case, table), where)
    value: dict[str, Any] = {"table": Exact(table)}
    if table in ("logs", "spans"):
        time = "time" if table == "logs" else "start"
        windows = log_windows(case) if table == "logs" else span_windows(case)
        value["baseline_rows"] = table_rows.filter(windows.in_baseline(time)).height
        table_rows = table_rows.filter(windows.in_search(time))
        value["incident_rows"] = table_rows.height
    if table == "spans" and table_rows.height:
        # The slowest first, as only the first rows are shown.
        table_rows = table_rows.sort("duration_us", descending=True, nulls_last=True)
        value["p50_ms"], value["p95_ms"] = (
            _ms(table_rows["duration_us"].quantile(share)) for share in (0.5, 0.95)
        )
    lines = LineDetails.of(finding)
    if table == "logs" and lines is not None and lines.example:
        value["example"] = lines.example
        value["template"] = lines.template
    columns = [name for name in SHOWN[table] if name in table_rows.columns]
    value["rows"] = [
        _row(row) for row in table_rows.select(columns).head(MOST_ROWS).iter_rows(named=True)
    ]
    if table_rows.height > MOST_ROWS:
        value["more_rows"] = table_rows.height - MOST_ROWS
    return value


def _matching(table: pl.DataFrame, where: Mapping[str, str]) -> pl.DataFrame:
    for column, expected_value in where.items():
        if column in table.columns and expected_value:
            table = table.filter(pl.col(column) == expected_value)
    return table


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, datetime):
            shown[name] = when(value)
        elif isinstance(value, str):
            shown[name] = value[:LONGEST]
        elif value is not None:
            shown[name] = value
    return shown


def _ms(duration_us: float | None) -> float | None:
    return duration_us / 1000 if duration_us is not None else None
