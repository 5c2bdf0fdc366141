"""Which finding decides, and the series behind a finding. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import Windows, log_windows, metric_windows, span_windows
from faultline.analysis.kinds.finding_details import LineDetails
from faultline.analysis.logs.lines import log_texts
from faultline.analysis.logs.miner import template_pattern
from faultline.analysis.requests.span_shifts import SELF_TIME
from faultline.analysis.requests.topology import call_edges
from faultline.analysis.vocabulary import Cause, Diagnosis, Finding
from faultline.analysis.wording.amounts import MILLISECONDS, NUMBER, PERCENT, Unit, unit_of
from faultline.analysis.wording.names import operation_name, signal_name, step_name, subject_name
from faultline.analysis.wording.phrases import plain

MIN_POINTS = 3
LEAST, MOST = 1e-100, 1e100
"""What is nearer to zero is zero, and what is larger is no measurement: differences and ratios of
such numbers are infinite."""
RUN_UP = 2.5
"""The chart begins this many lengths of its decisive part earlier, to show what is normal first."""
MIN_POINTS_BEFORE = 20
"""For a series of coarse steps, at least this many points earlier."""
SHORTEST = timedelta(minutes=5)
BUCKETS = 80
STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)
# As tracers write it: OpenTelemetry's STATUS_CODE_ERROR, its number 2, HTTP's 5xx.
_FAILED = r"(?i)^(error|status_code_error|2|5\d\d|fail.*)$"


@dataclass(frozen=True)
class FindingSeries:
    """The rows behind one finding: `points` has time and value, in order and without what is no
    number."""

    points: pl.DataFrame
    windows: Windows
    name: str
    """Of what is measured: "p99 latency"."""
    unit: Unit
    counted: bool = False

    @property
    def usual(self) -> tuple[float, float] | None:
        """The 5th and the 95th percentile of the baseline."""
        values = self.points.filter(self.windows.in_baseline("time"))["value"]
        if len(values) < MIN_POINTS:
            return None
        low, high = np.percentile(values.to_numpy(), (5, 95))
        return float(low), float(high)


def decisive_finding(diagnosis: Diagnosis) -> Finding | None:
    """Of the first cause its own signal, else its strongest finding that has a series.

    Without a cause, the strongest of the impact, then of all.
    """
    findings = {f.id: f for f in diagnosis.findings}
    top = min(diagnosis.causes, key=lambda c: c.rank, default=None)
    # The first group with anything to draw decides.
    for ids in (top.findings if top else (), diagnosis.impact.findings, tuple(findings)):
        candidates = [findings[finding_id] for finding_id in ids if finding_id in findings]
        drawable = [finding for finding in candidates if finding.series.get("table") in _SOURCES]
        if drawable:
            return max(drawable, key=lambda f: _weight(f, top))
    return None


def step_time_finding(diagnosis: Diagnosis, rank: object) -> Finding | None:
    """The finding about the time of a training step: the rank's own if there is one, else the
    strongest."""
    steps = [
        f
        for f in diagnosis.findings
        if f.series.get("table") == "metrics" and "step" in (f.signal or "")
    ]
    return max(steps, key=lambda f: (f.subject.endswith(f"rank {rank}"), f.strength), default=None)


def series_of(case: Case, finding: Finding) -> FindingSeries | None:
    """The finding's series; None when the case does not hold it."""
    table = finding.series.get("table", "")
    source = _SOURCES.get(table)
    if source is None or _rows_of(case, table).is_empty():
        return None
    series = source(case, finding)
    value = pl.col("value").cast(pl.Float64)
    floored_value = pl.when(value.abs() < LEAST).then(0.0).otherwise(value)
    points = series.points.filter(value.abs() < MOST).select("time", floored_value.alias("value"))
    if points.height < MIN_POINTS:
        return None
    return replace(series, points=points.sort("time"))


def _rows_of(case: Case, table: str) -> pl.DataFrame:
    if table == "metrics":
        return case.metrics
    return case.logs if table == "logs" else case.spans


def departure(case: Case, finding: Finding, series: FindingSeries) -> float:
    """How far one sees in the series that something is wrong: the share of its values since the
    onset that are outside of the usual range. By chance a tenth are."""
    usual = series.usual
    since = finding.onset or case.alert.started_at
    end = max(case.scope.incident.end, since)
    values = series.points.filter(pl.col("time").is_between(since, end))["value"].to_numpy()
    if usual is None or len(values) < MIN_POINTS:
        return 0.0
    outside = (values < usual[0]) | (values > usual[1])
    return float(outside.mean())


def decisive_part(
    case: Case, finding: Finding, series: FindingSeries
) -> tuple[datetime, datetime] | None:
    """From when to when the series is of interest; None where hardly anything was recorded then."""
    points = series.points
    alert, end = case.alert.started_at, max(case.scope.incident.end, case.alert.started_at)
    start = min(finding.onset or alert, alert)
    length = max(end - start, SHORTEST)
    before = points.filter(pl.col("time") < start)
    first = start - RUN_UP * length
    if before.height:
        nth = before["time"][-min(MIN_POINTS_BEFORE, before.height)]
        first = min(first, nth)
    last = end + length / 4
    view = points.filter(pl.col("time").is_between(first, last))
    if view.height < MIN_POINTS:
        return None
    return view["time"][0], view["time"][-1]


def _weight(finding: Finding, top: Cause | None) -> tuple[bool, bool, float]:
    table = finding.series.get("table")
    same_signal = (
        top is not None and finding.subject == top.subject and finding.signal == top.signal
    )
    return same_signal and table != "logs", table == "metrics", finding.strength


def _metrics(case: Case, finding: Finding) -> FindingSeries:
    service, signal = finding.series.get("service", ""), finding.series.get("signal", "")
    rows = case.metrics.filter(
        (pl.col("service") == service) & (pl.col("signal") == signal)
    ).drop_nulls("value")
    parts = rows.partition_by("labels")
    # The finding names no labels: take the part whose level it quotes.
    if len(parts) > 1:
        rows = min(parts, key=lambda part: _distance(part, finding))
    units = rows["unit"].drop_nulls()
    points = rows.group_by("time").agg(pl.col("value").mean())
    nans = points["value"].drop_nulls().drop_nans().to_list()
    unit = unit_of(signal, units[0] if len(units) else None, nans)
    return FindingSeries(points, metric_windows(case), signal_name(signal), unit)


def _distance(part: pl.DataFrame, finding: Finding) -> float:
    """How far this labelled series is from the one whose incident level the finding quotes."""
    level = finding.numbers.get("incident")
    after = (
        part.filter(pl.col("time") >= finding.onset)["value"] if finding.onset else part["value"]
    )
    median = after.median()
    return (
        abs(float(median) - level)
        if level is not None and isinstance(median, float)
        else float("inf")
    )


def _logs(case: Case, finding: Finding) -> FindingSeries:
    """Lines per step; a step of the recorded time without such a line is a zero, not a hole."""
    rows = log_texts(case.logs.filter(pl.col("service") == finding.series.get("service", "")))
    details = LineDetails.of(finding)
    template = details.template if details else ""
    if template:
        rows = rows.filter(pl.col("text").str.contains(template_pattern(template)))
    # Of all lines: the grid covers the recorded time, not only where this line was written.
    step = _step(case.logs["time"])
    at = pl.col("time").dt.truncate(f"{step}s")
    first, last = case.logs.select(at.min().alias("first"), at.max().alias("last")).row(0)
    grid = pl.DataFrame(
        {"time": pl.datetime_range(first, last, f"{step}s", time_unit="ns", eager=True)}
    )
    counts = rows.group_by(at).agg(pl.len().cast(pl.Float64).alias("value"))
    counts = grid.join(counts, on="time", how="left").with_columns(pl.col("value").fill_null(0.0))
    name = f"lines per {_step_label(step)}"
    if template:
        name += f", “{plain(step_name(f'line {template}'), 60)}”"
    return FindingSeries(counts, log_windows(case), name, NUMBER, counted=True)


def _spans(case: Case, finding: Finding) -> FindingSeries:
    rows, value, unit, what = _span_rows(case, finding)
    step = _step(rows["time"])
    points = rows.group_by(pl.col("time").dt.truncate(f"{step}s")).agg(value.alias("value"))
    return FindingSeries(points, span_windows(case), plain(what, 60), unit)


def _span_rows(case: Case, finding: Finding) -> tuple[pl.DataFrame, pl.Expr, Unit, str]:
    series = finding.series
    if "caller" in series:
        edges = call_edges(case.spans).filter(
            (pl.col("caller") == series["caller"]) & (pl.col("callee") == series.get("service", ""))
        )
        lost = (pl.col("caller_us") - pl.col("callee_us")).clip(lower_bound=0).median() / 1000
        return (
            edges.rename({"start": "time"}),
            lost,
            MILLISECONDS,
            f"time lost on calls from {subject_name(series['caller'])}",
        )
    rows = case.spans.filter(pl.col("service") == series.get("service", "")).rename(
        {"start": "time"}
    )
    if "operation" in series:
        rows = rows.filter(pl.col("operation") == series["operation"])
    operation = operation_name(series.get("operation", ""))
    of_what = f" in {operation}" if operation else ""
    if finding.signal == "errors":
        return (
            rows,
            100 * pl.col("status").fill_null("").str.contains(_FAILED).mean(),
            PERCENT,
            f"failed requests{of_what}",
        )
    if finding.kind == SELF_TIME:
        return (
            _self_times(case, rows),
            pl.col("own_us").median() / 1000,
            MILLISECONDS,
            f"own time{of_what}",
        )
    return rows, pl.col("duration_us").median() / 1000, MILLISECONDS, f"time{of_what}"


def _self_times(case: Case, rows: pl.DataFrame) -> pl.DataFrame:
    """`own_us` is the span's duration less its children's."""
    children = case.spans.group_by("trace_id", pl.col("parent_id").alias("span_id")).agg(
        pl.col("duration_us").sum().alias("children_us")
    )
    joined = rows.join(children, on=["trace_id", "span_id"], how="left")
    # Children that run at the same time add up to more than their parent.
    self_time = pl.col("duration_us") - pl.col("children_us").fill_null(0)
    return joined.with_columns(self_time.clip(lower_bound=0).alias("own_us"))


def _step(times: pl.Series) -> int:
    first, last = times.min(), times.max()
    if not isinstance(first, datetime) or not isinstance(last, datetime):
        return STEPS_S[0]
    length = (last.astimezone(UTC) - first.astimezone(UTC)).total_seconds()
    return next((s for s in STEPS_S if length / s <= BUCKETS), STEPS_S[-1])


def _step_label(step: int) -> str:
    return f"{step} s" if step < 60 else f"{step // 60} min" if step < 3600 else f"{step // 3600} h"


_SOURCES: Mapping[str, Callable[[Case, Finding], FindingSeries]] = {
    "metrics": _metrics,
    "logs": _logs,
    "spans": _spans,
}
