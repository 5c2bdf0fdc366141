"""Spans grouped into visits (one entry of a request into a service), and how long a visit waits for
others.

Durations and order are only compared between spans of one service, that is of one clock.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from faultline.analysis.case.folder import Case

MAX_DEPTH_BITS = 24
"""Each round of looking above doubles the reach; chains of parents that are cycles end here."""
LONGEST_NS = 10**17
"""Three years: no span is longer, and sums stay within 64 bits."""


def visits_of(case: Case) -> pl.DataFrame:
    """The case's spans with their visits, made once."""
    if "visits" not in case.derived:
        case.derived["visits"] = with_visits(case.spans)
    made: pl.DataFrame = case.derived["visits"]
    return made


def with_visits(spans: pl.DataFrame) -> pl.DataFrame:
    """The spans, each once, with `row` (their number), `parent` (the parent's), `visit` (the number
    of the entry span) and `entry` (whether it is that span). Start times are in ns; a duration that
    is missing or none is 0."""
    # A span may be sent twice, and counts once.
    rows = spans.unique(["trace_id", "span_id"], keep="first", maintain_order=True).with_row_index(
        "row"
    )
    rows = rows.with_columns(
        pl.col("service", "operation").fill_null(""),
        pl.col("start").dt.cast_time_unit("ns"),
        pl.col("duration_us").fill_nan(None).fill_null(0.0).clip(0.0, LONGEST_NS / 1000),
    )
    above = rows.select(
        "trace_id", pl.col("span_id").alias("parent_id"), pl.col("row").alias("parent")
    )
    rows = rows.join(above, on=["trace_id", "parent_id"], how="left", maintain_order="left")
    parent = rows["parent"].fill_null(0).to_numpy().astype(np.int64)
    # A dense rank compares numbers instead of names.
    service = rows["service"].rank("dense").to_numpy()
    entry = rows["parent"].is_null().to_numpy() | (service[parent] != service)
    visit = np.where(entry, np.arange(len(parent)), parent)
    for _ in range(MAX_DEPTH_BITS):
        further = visit[visit]
        if np.array_equal(further, visit):
            break
        visit = further
    return rows.with_columns(pl.Series("entry", entry), pl.Series("visit", visit.astype(np.uint32)))


def calls_made(spans: pl.DataFrame) -> pl.DataFrame:
    """One row per call to another service: row (of the callee's entry), parent, caller_visit,
    caller, callee, operation (the callee's), start and us (of the span around it), callee_us, and
    `dedicated`: whether that span is around this call alone, so that what it takes longer is lost
    between the two."""
    children = (
        spans.filter(pl.col("parent").is_not_null())
        .group_by("parent")
        .agg(pl.len().alias("children"))
    )
    around = spans.select(
        pl.col("row").alias("parent"),
        pl.col("visit").alias("caller_visit"),
        pl.col("service").alias("caller"),
        pl.col("start").alias("around_start"),
        pl.col("duration_us").alias("us"),
        pl.col("entry").alias("direct"),
    )
    calls = spans.filter(pl.col("entry") & pl.col("parent").is_not_null())
    return (
        calls.join(around, on="parent", how="inner", maintain_order="left")
        .join(children, on="parent", how="inner", maintain_order="left")
        .select(
            "row",
            "parent",
            "trace_id",
            "caller_visit",
            "caller",
            pl.col("service").alias("callee"),
            "operation",
            pl.col("around_start").alias("start"),
            "us",
            pl.col("duration_us").alias("callee_us"),
            "direct",
            (pl.col("children") == 1).alias("dedicated"),
        )
    )


def self_times(spans: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """One row per visit: visit, trace_id, service, operation, start, us, and own_us, its duration
    less its waits.

    A wait is the time in a span around calls, overlaps counted once; calls right under the entry
    span wait as long as the callee takes, and for the whole visit when they are its only child.
    """
    spent = calls.filter(~pl.col("direct")).unique("parent", keep="first", maintain_order=True)
    begin, took = pl.col("start").dt.epoch("ns"), (1000 * pl.col("us")).cast(pl.Int64)
    spent = spent.select("caller_visit", begin.alias("begin"), (begin + took).alias("end"))
    spent = spent.sort("caller_visit", "begin", "end")
    # A running end, so that calls that overlap are waited for once.
    reached = pl.col("end").cum_max().shift(1).over("caller_visit")
    new = (pl.col("end") - pl.max_horizontal("begin", reached)).clip(lower_bound=0)
    inner = (
        spent.with_columns((new / 1000).alias("wait"))
        .group_by("caller_visit")
        .agg(pl.col("wait").sum())
    )
    direct = calls.filter("direct").select(
        "caller_visit",
        pl.when("dedicated").then(pl.col("us")).otherwise(pl.col("callee_us")).alias("wait"),
    )
    waits = pl.concat([inner, direct]).group_by("caller_visit").agg(pl.col("wait").sum())
    visits = spans.filter("entry").join(
        waits, left_on="visit", right_on="caller_visit", how="left", maintain_order="left"
    )
    self_us = (pl.col("duration_us") - pl.col("wait").fill_null(0.0)).clip(lower_bound=0)
    return visits.select(
        "visit",
        "trace_id",
        "service",
        "operation",
        "start",
        pl.col("duration_us").alias("us"),
        self_us.alias("own_us"),
    )
