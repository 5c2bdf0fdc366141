"""The rows behind one finding, thinned for a chart of at most `MAX_POINTS` points.

Metrics are shown as recorded; log lines and spans are counted or summarised in equal buckets of
time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.errors import EvidenceError
from faultline.analysis.kinds.finding_details import LineDetails
from faultline.analysis.logs.lines import log_texts
from faultline.analysis.logs.miner import template_pattern
from faultline.analysis.vocabulary import Finding, Window
from faultline.bot.web.text import visible, words
from faultline.bot.web.timeline import Change

MAX_POINTS = 2000
MAX_LINES = 8
"""Curves in one chart. The chart says how many more there are."""
BUCKETS = 240
NS = 1e9

Pairs = list[list[float | None]]


@dataclass(frozen=True)
class Curve:
    """One curve: times in seconds since 1970 and values, null where nothing was recorded."""

    label: str
    times: list[float]
    values: list[float | None]
    bars: bool = False

    def as_json(self) -> dict[str, object]:
        """For the chart."""
        return {
            "label": visible(self.label),
            "times": self.times,
            "values": self.values,
            "bars": self.bars,
        }


def chart_data(case: Case, finding: Finding, changes: Iterable[Change]) -> dict[str, object]:
    """Everything the chart of one finding shows. Raises EvidenceError when there is nothing to
    draw."""
    curves, unit, rows = _curves(case, finding)
    if not any(c.times for c in curves):
        raise EvidenceError(
            finding.series.get("table", "series"), f"holds no rows for {finding.id}"
        )
    shown = curves[:MAX_LINES]
    first, last = (
        min(c.times[0] for c in shown if c.times),
        max(c.times[-1] for c in shown if c.times),
    )
    return {
        "title": visible(f"{finding.subject} {finding.signal or words(finding.kind)}"),
        "unit": visible(unit),
        "curves": [c.as_json() for c in shown],
        "left_out": len(curves) - len(shown),
        "rows": rows,
        "baseline": [[_s(w.start), _s(w.end)] for w in _baseline(case, finding)],
        "incident": [_s(case.scope.incident.start), _s(case.scope.incident.end)],
        "onset": _s(finding.onset) if finding.onset else None,
        "alert": _s(case.alert.started_at),
        "threshold": _threshold(case, finding),
        "changes": [
            {"time": _s(c.time), "title": visible(f"{c.service} {c.kind} {c.title or c.id}")[:120]}
            for c in changes
            if first <= _s(c.time) <= last
        ],
    }


def can_chart(finding: Finding) -> bool:
    """Whether the finding names rows that a chart can show."""
    return finding.series.get("table") in _SOURCES


def _curves(case: Case, finding: Finding) -> tuple[list[Curve], str, int]:
    source = _SOURCES.get(finding.series.get("table", ""))
    if source is None:
        raise EvidenceError("findings.json", f"{finding.id} names no series")
    return source(case, finding)


def _metrics(case: Case, finding: Finding) -> tuple[list[Curve], str, int]:
    rows = (
        _where(case.metrics, finding.series, ("service", "signal", "labels"))
        .drop_nulls("time")
        .sort("time")
    )
    units = rows["unit"].drop_nulls().unique().sort().to_list()
    parts = rows.partition_by("labels", maintain_order=True)
    # Of more curves than a chart shows, those with the most points stay.
    parts.sort(key=lambda part: -part.height)
    budget = MAX_POINTS // max(1, min(len(parts), MAX_LINES))
    names = _curve_names([p["labels"][0] for p in parts], finding.series.get("signal", "value"))
    curves = [
        _curve(name, p["time"], p["value"], budget) for name, p in zip(names, parts, strict=True)
    ]
    return curves, str(units[0]) if units else "", rows.height


def _curve_names(labels: list[str | None], signal: str) -> list[str]:
    """A curve is named by the labels in which it differs from the others; a single one by its
    signal."""
    if len(labels) < 2:
        return [signal] * len(labels)
    parsed = [_labels(text) for text in labels]
    common = set.intersection(*(set(p.items()) for p in parsed))
    return [
        ", ".join(f"{k}={v}" for k, v in p.items() if (k, v) not in common) or signal
        for p in parsed
    ]


def _labels(text: str | None) -> dict[str, str]:
    try:
        labels = json.loads(text or "{}")
    except (ValueError, RecursionError):
        labels = None
    return (
        {str(k): str(v) for k, v in labels.items()}
        if isinstance(labels, dict)
        else {"labels": str(text)}
    )


def _curve(label: str, time: pl.Series, value: pl.Series, budget: int) -> Curve:
    table = thin(pl.DataFrame({"t": time.cast(pl.Int64) / NS, "v": value}), budget)
    # JSON has no NaN and no infinity, and a chart interrupts its line at null.
    values = [
        None if v is None or v != v or abs(v) == float("inf") else v for v in table["v"].to_list()
    ]
    return Curve(label, [round(t, 3) for t in table["t"].to_list()], values)


def thin(points: pl.DataFrame, budget: int) -> pl.DataFrame:
    """At most `budget` rows of columns t, v: per bucket of rows the lowest and the highest; no
    spike is lost."""
    if points.height <= budget:
        return points
    buckets = max(1, budget // 2)
    row = pl.int_range(pl.len())
    marked = points.with_columns(row.alias("row"), (row * buckets // points.height).alias("bucket"))
    low, high = pl.col("v").arg_min(), pl.col("v").arg_max()
    # A bucket of nulls has no extreme, so its first row stands for it.
    extremes = marked.group_by("bucket").agg(
        pl.col("row").gather(low.fill_null(0)).first().alias("low"),
        pl.col("row").gather(high.fill_null(0)).first(),
    )
    return marked.filter(
        pl.col("row").is_in(pl.concat([extremes["low"], extremes["row"]]).implode())
    ).select("t", "v")


def _logs(case: Case, finding: Finding) -> tuple[list[Curve], str, int]:
    rows = log_texts(_where(case.logs, finding.series, ("service", "level"))).sort("time")
    if not rows.height:
        return [], "lines", 0
    details = LineDetails.of(finding)
    pattern = template_pattern(details.template) if details and details.template else None
    expressions = {"all lines": pl.len(), "error lines": pl.col("is_error").sum()}
    if pattern is not None:
        expressions["this line"] = pl.col("text").str.contains(pattern).sum()
    counts = _bucketed(rows, "time", [e.cast(pl.Float64).alias(n) for n, e in expressions.items()])
    curves = [
        Curve(n, counts["t"].to_list(), counts[n].fill_null(0).to_list(), bars=True)
        for n in expressions
    ]
    width = _bucket_width(rows["time"])
    return (
        [c for c in curves if any(c.values)],
        f"lines per {width.total_seconds():g} s",
        rows.height,
    )


def _spans(case: Case, finding: Finding) -> tuple[list[Curve], str, int]:
    rows = _where(case.spans, finding.series, ("service", "operation")).sort("start")
    if "caller" in finding.series:
        callers = case.spans.filter(pl.col("service") == finding.series["caller"]).select(
            "trace_id", pl.col("span_id").alias("parent_id")
        )
        # Only the caller's calls: their parents are its spans.
        rows = rows.join(callers.unique(), on=["trace_id", "parent_id"], how="semi")
    if not rows.height:
        return [], "ms", 0
    ms = pl.col("duration_us") / 1000
    table = _bucketed(
        rows, "start", [ms.median().alias("median"), ms.quantile(0.95).alias("95th percentile")]
    )
    times = table["t"].to_list()
    curves = [
        Curve(n, times, [_rounded(v) for v in table[n].to_list()])
        for n in ("median", "95th percentile")
    ]
    return curves, "ms", rows.height


def _bucketed(rows: pl.DataFrame, time: str, values: list[pl.Expr]) -> pl.DataFrame:
    """One row per bucket of time, empty buckets included; `t` is the bucket's start in seconds."""
    width = _bucket_width(rows[time])
    filled = (
        rows.group_by_dynamic(time, every=width)
        .agg(values)
        .upsample(time, every=width, maintain_order=True)
    )
    return filled.with_columns((pl.col(time).cast(pl.Int64) / NS).alias("t"))


def _bucket_width(times: pl.Series) -> timedelta:
    first, last = times.min(), times.max()
    assert isinstance(first, datetime)
    assert isinstance(last, datetime)
    # Rounded up to whole seconds, so that there are at most about BUCKETS.
    return timedelta(seconds=max(1, -(-int((last - first).total_seconds()) // BUCKETS)))


def _where(
    table: pl.DataFrame, series: Mapping[str, str], columns: tuple[str, ...]
) -> pl.DataFrame:
    for column in columns:
        if column in series:
            table = table.filter(pl.col(column) == series[column])
    return table


def _baseline(case: Case, finding: Finding) -> tuple[Window, ...]:
    windows = {"logs": case.scope.baseline_logs, "spans": case.scope.baseline_spans}.get(
        finding.series.get("table", "")
    )
    return case.scope.baseline if windows is None else windows


def _threshold(case: Case, finding: Finding) -> float | None:
    return (
        case.alert.threshold if case.alert.signal and case.alert.signal == finding.signal else None
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _s(moment: datetime) -> float:
    return round(moment.timestamp(), 3)


_SOURCES = {"metrics": _metrics, "logs": _logs, "spans": _spans}
