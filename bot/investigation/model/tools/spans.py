"""`traces`: the slowest or failing requests of a service and its operations against the baseline;
`request`: all spans of one trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import polars as pl
from pydantic import Field

from faultline.analysis.case.tables import ORIGIN
from faultline.analysis.case.windows import span_windows
from faultline.analysis.kinds.finding_details import ObservationDetails
from faultline.analysis.requests.critical_path import with_visits
from faultline.analysis.requests.error_origin import FAILED
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.amounts import MILLISECONDS, amount
from faultline.analysis.wording.phrases import number, plain
from faultline.bot.investigation.model.model_session import ModelSession
from faultline.bot.investigation.model.tools.contract import (
    Arguments,
    CallResult,
    InvalidCall,
    Row,
    Tool,
    case_service,
    clock,
    from_evidence,
    has,
    iso,
    moment,
    observation,
    short_names,
)
from faultline.bot.runtime.threads import in_thread

MOST_OPERATIONS = 15
MOST_REQUESTS = 25
MOST_SPANS = 80
"""Of one trace in one result."""
MOST_READ = 10_000
"""Spans of one trace that are put into a tree."""
DEEPEST = 60
SLIGHT = 0.1
"""A p95 within this share of the baseline's is called unaffected."""


class TraceArguments(Arguments):
    service: str = Field(description="The service whose requests are meant.")
    order: Literal["slowest", "failing"] = Field(
        default="slowest", description="Which of its requests."
    )
    operation: str | None = Field(
        default=None, description="A part of the operation's name, or null for all."
    )


class RequestArguments(Arguments):
    trace_id: str = Field(description="The id of a trace, from `traces` or a log line.")
    service: str | None = Field(default=None, description="Only spans of this service, or null.")
    skip: int = Field(
        default=0, ge=0, le=1_000_000, description="How many spans to leave out, to page on."
    )


async def traces(model_session: ModelSession, arguments: TraceArguments) -> CallResult:
    """A service's operations against the baseline, then requests of the incident."""
    service = case_service(model_session, arguments.service)
    if not model_session.case.spans.height:
        raise InvalidCall("the case holds no spans: `collect` may bring some")
    return await in_thread(_requests, model_session, service, arguments)


async def request(model_session: ModelSession, arguments: RequestArguments) -> CallResult:
    """The spans of a trace as a tree, by when they began."""
    service = case_service(model_session, arguments.service) if arguments.service else None
    return await in_thread(_tree, model_session, arguments, service)


def _provenance(model_session: ModelSession) -> str:
    return f"{from_evidence(model_session.case.evidence, 'spans')}; operations are foreign names"


def _requests(model_session: ModelSession, service: str, arguments: TraceArguments) -> CallResult:
    spans = model_session.case.spans.filter(pl.col("service") == service)
    if not spans.height:
        there = short_names(model_session.case.spans["service"].drop_nulls().unique().to_list(), 20)
        raise InvalidCall(f"the case holds no spans of {service}; there are spans of {there}")
    if arguments.operation:
        name = pl.col("operation").str.to_lowercase()
        spans = spans.filter(name.str.contains(arguments.operation.lower(), literal=True))
    windows = span_windows(model_session.case)
    spans = spans.with_columns(
        windows.side("start", searched=1, baseline=0).alias("now"),
        pl.col("status").fill_null("").str.contains(FAILED).alias("failed"),
        # What lies outside both windows belongs to neither side.
    ).filter(pl.col("now").is_not_null())
    compared = _compared(spans)
    rows = []
    for row in compared.head(MOST_OPERATIONS).iter_rows(named=True):
        finding = _operation(model_session, service, row)
        rows.append(Row(finding.sentence, finding=finding))
    now = spans.filter(pl.col("now") == 1)
    picked = now.filter("failed") if arguments.order == "failing" else now
    # Only the first such span of each trace, as each row is to show another request.
    first = pl.col("start").rank("ordinal").over("trace_id") == 1
    picked = picked.filter(first) if picked.height else picked
    slowest = picked.sort("duration_us", descending=True, nulls_last=True)
    for row in slowest.head(MOST_REQUESTS).iter_rows(named=True):
        rows.append(_span(model_session, row, f"trace {plain(row['trace_id'], 64)} "))
    if not rows:
        raise InvalidCall(f"no span of {service} matches in the incident or its baseline")
    parts = []
    for left_out, what in (
        (compared.height - MOST_OPERATIONS, "operations"),
        (slowest.height - MOST_REQUESTS, "requests"),
    ):
        if left_out > 0:
            parts.append(f"{left_out} more {what}")
    cut = f"{', '.join(parts)}; narrow with operation" if parts else ""
    return CallResult(rows, _provenance(model_session), cut=cut)


def _compared(spans: pl.DataFrame) -> pl.DataFrame:
    def side(n: int, name: str) -> list[pl.Expr]:
        rows = pl.col("now") == n
        return [
            rows.sum().alias(f"count_{name}"),
            pl.col("duration_us").filter(rows).quantile(0.95).alias(f"p95_{name}"),
            pl.col("failed").filter(rows).mean().alias(f"failed_{name}"),
        ]

    return (
        spans.group_by("operation", maintain_order=True)
        .agg(*side(1, "now"), *side(0, "before"))
        .sort(["count_now", "operation"], descending=[True, False])
    )


def _operation(model_session: ModelSession, service: str, row: Mapping[str, Any]) -> Finding:
    name = plain(str(row["operation"]))
    numbers: dict[str, float] = {
        "count": row["count_now"],
        "baseline_count": row["count_before"],
        "percentile": 95,
    }
    phrase = f"{plain(service)} {name}: "
    now, before, direction = row["p95_now"], row["p95_before"], None
    if now is not None:
        numbers["p95_ms"] = now / 1000
        phrase += f"p95 {amount(now / 1000, MILLISECONDS)} in the incident"
    else:
        phrase += "no spans in the incident"
    if before is not None:
        numbers["baseline_p95_ms"] = before / 1000
        phrase += f", {amount(before / 1000, MILLISECONDS)} before"
    if now is not None and before is not None:
        direction = "unaffected"
        if abs(now - before) > SLIGHT * before:
            direction = "rose" if now > before else "fell"
        if before > 0:
            numbers["ratio"] = now / before
    phrase += f"; {row['count_now']} spans, {row['count_before']} before"
    for share, role, when in (
        (row["failed_now"], "failed_percent", "failed"),
        (row["failed_before"], "baseline_failed_percent", "before"),
    ):
        if share is not None:
            numbers[role] = 100 * share
            phrase += f"{';' if when == 'failed' else ','} {number(100 * share, 3)} % {when}"
    return observation(
        service,
        f"spans of {name}",
        f"{phrase}.",
        ObservationDetails(about="operation", direction=direction, unit="ms"),
        evidence=model_session.case.evidence_ids("spans"),
        numbers=numbers,
        series={"table": "spans", "service": service, "operation": str(row["operation"])},
    )


def _span(
    model_session: ModelSession, row: Mapping[str, Any], prefix: str, after_ms: float | None = None
) -> Row:
    """One span; `after_ms` is when it began, in ms since the first of its trace."""
    service, name = str(row["service"] or ""), plain(str(row["operation"]))
    ms = (row["duration_us"] or 0.0) / 1000
    status = plain(str(row["status"] or ""), 40)
    numbers = {"ms": ms} | ({"after_ms": after_ms} if after_ms is not None else {})
    phrase = f"{plain(service)} {name} took {amount(ms, MILLISECONDS)}"
    ending = f", {status}" if status else ""
    finding = observation(
        service,
        f"spans of {name}",
        f"{phrase} at {moment(row['start'])}{ending}.",
        ObservationDetails(
            about="span", time=iso(row["start"]), trace_id=str(row["trace_id"]), unit="ms"
        ),
        evidence=(row[ORIGIN],) if row[ORIGIN] else model_session.case.evidence_ids("spans"),
        numbers=numbers,
        series={"table": "spans", "service": service, "operation": str(row["operation"])},
    )
    when = f"after {amount(after_ms, MILLISECONDS)}" if after_ms is not None else ""
    return Row(f"{prefix}{when or clock(row['start'])} {phrase}{ending}", finding=finding)


def _tree(
    model_session: ModelSession, arguments: RequestArguments, service: str | None
) -> CallResult:
    trace_spans = model_session.case.spans.filter(pl.col("trace_id") == arguments.trace_id)
    if not trace_spans.height:
        raise InvalidCall("no trace of this id; `traces` of a service names some")
    spans = with_visits(trace_spans.head(MOST_READ)).sort("start")
    parents = dict(spans.select("row", "parent").iter_rows())
    first = spans["start"].min()
    shown = spans.filter(pl.col("service") == service) if service else spans
    rows = []
    for row in shown.slice(arguments.skip, MOST_SPANS).iter_rows(named=True):
        after = (row["start"] - first).total_seconds() * 1000
        depth, above = 0, parents.get(row["row"])
        # Parents are the sender's word, and may form a circle.
        while above is not None and depth < DEEPEST:
            depth, above = depth + 1, parents.get(above)
        indent = "." * depth
        rows.append(_span(model_session, row, f"{indent} " if indent else "", after))
    if not rows:
        raise InvalidCall("no span of this trace matches")
    left_out = shown.height - arguments.skip - len(rows)
    cut = (
        f"{left_out} more spans; skip={arguments.skip + len(rows)}, or service" if left_out else ""
    )
    note = f"{trace_spans.height} spans; dots tell how far below the root a span is"
    return CallResult(rows, _provenance(model_session), note, cut)


TRACES = Tool(
    "traces",
    "Spans of a service: its operations against their baseline, and its slowest or failing "
    "requests with their trace ids.",
    TraceArguments,
    traces,
    has("spans"),
)
REQUEST = Tool(
    "request",
    "All spans of one request by its trace id, as a tree with times.",
    RequestArguments,
    request,
    has("spans"),
)
