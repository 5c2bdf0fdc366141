"""Where requests stop following their usual path: an event that always came with an operation no longer comes.

For each service and operation, the share of its requests (traces) that also hold an event of that service: one of its
log templates, or a call to another service. An event that nearly every baseline request holds and many incident
requests lack marks the code where the path broke. This is the idea of Nezha's event patterns (Yu et al., FSE 2023),
with sets in place of sequences, so that it is a few joins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import polars as pl

from analysis.case_folder import Case
from analysis.log_lines import log_texts
from analysis.vocabulary import Finding
from analysis.windows import Windows, log_windows, span_windows
from analysis.wording import number, plain, rounded

KIND = "flow_break"
ALWAYS = 0.9
"""An event belongs to an operation when this share of its baseline requests hold it."""
BROKEN = 0.25
"""And is broken when the share falls by at least this much."""
MIN_REQUESTS = 4
MAX_PER_SERVICE = 3
_TRACE_ID = r"(?i)trace_?id[\"'=: ]+([0-9a-f]{16,32})"
_SIDE = "side"


def flow_breaks(case: Case) -> list[Finding]:
    """At most three findings per service, the largest drops; empty without spans and trace ids on both sides."""
    if not case.spans.height:
        return []
    spans = _sided(case.spans, span_windows(case), "start")
    if spans[_SIDE].n_unique() < 2:
        return []
    events = pl.concat([_calls(spans), _lines(case)])
    shares = _shares(spans.select(_SIDE, "trace_id", "service", "operation").unique(), events)
    evidence = (*case.evidence_ids("spans"), *case.evidence_ids("logs"))
    return list(_findings(shares, evidence))


def _sided(rows: pl.DataFrame, windows: Windows, time: str) -> pl.DataFrame:
    side = pl.when(windows.in_search(time)).then(pl.lit("now")).when(windows.in_baseline(time)).then(pl.lit("before"))
    return rows.with_columns(side.alias(_SIDE)).filter(pl.col(_SIDE).is_not_null())


def _calls(spans: pl.DataFrame) -> pl.DataFrame:
    """Calls to another service as events of the caller."""
    parents = spans.select("trace_id", pl.col("span_id").alias("parent_id"), pl.col("service").alias("caller"))
    calls = spans.join(parents.unique(["trace_id", "parent_id"]), on=["trace_id", "parent_id"], how="inner")
    return (
        calls.filter(pl.col("caller") != pl.col("service"))
        .select(
            _SIDE,
            "trace_id",
            pl.col("caller").alias("service"),
            pl.concat_str(pl.lit("call to "), "service", pl.lit(" "), "operation").alias("event"),
        )
        .unique()
    )


def _lines(case: Case) -> pl.DataFrame:
    """Log lines with a trace id as events, by their masked text; an error line that stops coming breaks nothing."""
    named = pl.coalesce("trace_id", pl.col("message").str.extract(_TRACE_ID))
    logs = case.logs.with_columns(named.alias("trace_id")).filter(pl.col("trace_id").is_not_null())
    if not logs.height:
        return pl.DataFrame(schema={_SIDE: pl.String, "trace_id": pl.String, "service": pl.String, "event": pl.String})
    texts = log_texts(_sided(logs, log_windows(case), "time")).filter(~pl.col("is_error"))
    line = pl.concat_str(pl.lit("line "), pl.col("masked").str.slice(0, 90))
    return texts.select(_SIDE, "trace_id", "service", line.alias("event")).unique()


def _shares(operations: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Per service, operation and event: the share of requests that hold it, before and now, and their number."""
    by = ["service", "operation"]
    totals = operations.group_by(by).agg(
        (pl.col(_SIDE) == "before").sum().alias("n_before"), (pl.col(_SIDE) == "now").sum().alias("n")
    )
    held = (
        operations.join(events, on=[_SIDE, "trace_id", "service"], how="inner")
        .group_by([*by, "event"])
        .agg((pl.col(_SIDE) == "before").sum().alias("with_before"), (pl.col(_SIDE) == "now").sum().alias("with"))
    )
    shares = held.join(totals, on=by).with_columns(
        (pl.col("with_before") / pl.col("n_before")).alias("share_before"),
        (pl.col("with") / pl.col("n")).alias("share"),
    )
    usual = (pl.col("n_before") >= MIN_REQUESTS) & (pl.col("n") >= MIN_REQUESTS) & (pl.col("share_before") >= ALWAYS)
    broken = shares.filter(usual & (pl.col("share_before") - pl.col("share") >= BROKEN))
    return broken.sort("service", "share", "n", "operation", "event", descending=[False, False, True, False, False])


def _findings(shares: pl.DataFrame, evidence: tuple[str, ...]) -> Iterator[Finding]:
    seen: dict[str, set[str]] = {}
    for row in shares.iter_rows(named=True):
        told = seen.setdefault(row["service"], set())
        if row["event"] in told or len(told) >= MAX_PER_SERVICE:
            continue
        told.add(row["event"])
        percent, before = rounded(100 * row["share"], 3), rounded(100 * row["share_before"], 3)
        support = 1.0 - math.exp(-min(row["n"], row["n_before"]) / 4.0)
        what = plain(str(row["event"]).replace("<*>", "*"), 90)
        yield Finding(
            id="",
            kind=KIND,
            subject=row["service"],
            signal="request flow",
            effect=rounded(percent - before, 3),
            effect_unit="percentage points",
            strength=round(min(1.0, (row["share_before"] - row["share"]) ** 0.5 * support), 4),
            sentence=f"{number(percent, 3)} % of {plain(row['service'])} requests through "
            f"{plain(row['operation'], 60)} still hold its {what}, {number(before, 3)} % in the baseline.",
            numbers={"percent": percent, "baseline_percent": before},
            evidence=evidence,
            series={"table": "spans", "service": row["service"], "operation": row["operation"]},
            details={
                "class": "other",
                "bad": True,
                "event": what,
                "requests": row["n"],
                "baseline_requests": row["n_before"],
            },
        )
