"""`traces`: the slowest or failing requests of a service, its operations against the baseline, or
one whole trace."""

from __future__ import annotations

from typing import Any, Literal

import polars as pl
from pydantic import Field

from analysis.case.observations import KIND
from analysis.case.windows import span_windows
from analysis.requests.error_origin import FAILED
from analysis.requests.visits import with_visits
from analysis.vocabulary import Finding
from analysis.wording.phrases import number, plain, rounded
from bot.investigation.model.bench import Bench
from bot.investigation.model.tools.found import (
    Arguments,
    Found,
    NotFound,
    Tool,
    from_evidence,
    known_service,
    moment,
    value,
)
from bot.runtime.threads import in_thread

MAX_OPERATIONS = 6
MAX_REQUESTS = 8
MAX_SPANS = 60
"""Of one trace."""


class TraceArguments(Arguments):
    service: str | None = Field(
        default=None, description="The service whose requests are meant; null with trace_id."
    )
    order: Literal["slowest", "failing"] = Field(
        default="slowest", description="Which of its requests."
    )
    trace_id: str | None = Field(default=None, description="One trace, shown as a tree; else null.")


async def traces(bench: Bench, asked: TraceArguments) -> Found:
    """One trace, or a service's operations and requests."""
    if not bench.case.spans.height:
        raise NotFound("the case holds no spans")
    provenance = (
        f"{from_evidence(bench.case.evidence, 'spans')}; operations and statuses are foreign text"
    )
    if asked.trace_id:
        return Found(await in_thread(_tree, bench, asked.trace_id), provenance)
    if not asked.service:
        raise NotFound("give `service` or `trace_id`")
    service = known_service(bench, asked.service)
    rows = await in_thread(_requests, bench, service, asked.order)
    return Found(rows, provenance)


def _requests(bench: Bench, service: str, order: str) -> list[dict[str, Any]]:
    own = bench.case.spans.filter(pl.col("service") == service)
    if not own.height:
        held = sorted(bench.case.spans["service"].drop_nulls().unique().to_list())
        raise NotFound(
            f"the case holds no spans of {service}; there are spans of {', '.join(held[:20])}"
        )
    windows = span_windows(bench.case)
    side = pl.when(windows.in_search("start")).then(1).when(windows.in_baseline("start")).then(0)
    own = own.with_columns(
        side.alias("now"), pl.col("status").fill_null("").str.contains(FAILED).alias("failed")
    ).filter(pl.col("now").is_not_null())
    operations = [_operation(bench, service, row) for row in _compared(own).iter_rows(named=True)]
    now = own.filter(pl.col("now") == 1)
    picked = now.filter("failed") if order == "failing" else now
    picked = picked.sort("duration_us", descending=True, nulls_last=True).head(MAX_REQUESTS)
    return [*operations, *(_request(row) for row in picked.iter_rows(named=True))]


def _compared(own: pl.DataFrame) -> pl.DataFrame:
    def side(n: int, name: str) -> list[pl.Expr]:
        rows = pl.col("now") == n
        return [
            rows.sum().alias(f"count_{name}"),
            pl.col("duration_us").filter(rows).quantile(0.95).alias(f"p95_{name}"),
            pl.col("failed").filter(rows).mean().alias(f"failed_{name}"),
        ]

    return (
        own.group_by("operation", maintain_order=True)
        .agg(*side(1, "now"), *side(0, "before"))
        .sort(["count_now", "operation"], descending=[True, False])
        .head(MAX_OPERATIONS)
    )


def _operation(bench: Bench, service: str, row: dict[str, Any]) -> dict[str, Any]:
    finding = bench.observe(_observation(bench, service, row))
    return {
        "cite": finding.id or None,
        "operation": row["operation"],
        "says": finding.sentence,
        "spans": {"incident": row["count_now"], "baseline": row["count_before"]},
    }


def _observation(bench: Bench, service: str, row: dict[str, Any]) -> Finding:
    numbers: dict[str, float] = {"spans": row["count_now"]}
    said = f"{plain(service)} {plain(str(row['operation']))}: "
    if row["p95_now"] is not None:
        numbers["incident_ms"] = rounded(row["p95_now"] / 1000)
        said += f"p95 {number(row['p95_now'] / 1000)} ms in the incident"
    else:
        said += "no spans in the incident"
    if row["p95_before"] is not None:
        numbers["baseline_ms"] = rounded(row["p95_before"] / 1000)
        said += f", {number(row['p95_before'] / 1000)} ms before"
    if row["failed_now"] is not None:
        numbers["failed_percent"] = rounded(100 * row["failed_now"], 3)
        said += f"; {number(100 * row['failed_now'], 3)} % of {row['count_now']} spans failed"
    if row["failed_before"] is not None:
        numbers["failed_before_percent"] = rounded(100 * row["failed_before"], 3)
        said += f", {number(100 * row['failed_before'], 3)} % before"
    return Finding(
        id="",
        kind=KIND,
        subject=service,
        signal=f"spans of {plain(str(row['operation']))}",
        strength=0.0,
        sentence=f"{said}.",
        numbers=numbers | {"percentile": 95},
        evidence=bench.case.evidence_ids("spans"),
        series={"table": "spans", "service": service},
    )


def _request(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "trace_id": row["trace_id"],
        "operation": row["operation"],
        "start": moment(row["start"]),
        "ms": value((row["duration_us"] or 0) / 1000),
        "status": row["status"],
    }


def _tree(bench: Bench, trace_id: str) -> list[dict[str, Any]]:
    """The spans of a trace by start; `depth` says how far below its root each is."""
    own = bench.case.spans.filter(pl.col("trace_id") == trace_id)
    if not own.height:
        raise NotFound("no trace of this id; `traces` of a service names some")
    spans = with_visits(own.head(10_000)).sort("start")
    parents = dict(spans.select("row", "parent").iter_rows())
    first = spans["start"].min()
    rows = [
        {
            "depth": _depth(row["row"], parents),
            "service": row["service"],
            "operation": row["operation"],
            "after_ms": value((row["start"] - first).total_seconds() * 1000),
            "ms": value(row["duration_us"] / 1000),
            "status": row["status"],
        }
        for row in spans.head(MAX_SPANS).iter_rows(named=True)
    ]
    left_out = own.height - MAX_SPANS
    return [*rows, {"left_out": left_out}] if left_out > 0 else rows


def _depth(row: int, parents: dict[int, int | None]) -> int:
    depth, above = 0, parents.get(row)
    while above is not None and depth < MAX_SPANS:
        depth, above = depth + 1, parents.get(above)
    return depth


TRACES = Tool(
    "traces",
    "Spans: the slowest or failing requests of a service and its operations against their "
    "baseline, or one trace.",
    TraceArguments,
    traces,
)
