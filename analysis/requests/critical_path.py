"""Which service carries the time by which requests became slower.

A request's time is shared out over its critical path: to each visit its own time, to each call the
time lost between caller and callee; calls that overlap share the time that they take together. So
the parts add up to what the request took, and the parts' differences to the baseline add up to the
difference of the whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import Windows
from faultline.analysis.kinds.finding_details import RequestPathDetails
from faultline.analysis.kinds.finding_kinds import CRITICAL_PATH
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import number, plain, rounded

# Spans grouped into visits (one entry of a request into a service), and how long a visit waits for
# others.
#
# Durations and order are only compared between spans of one service, that is of one clock.

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


KIND = CRITICAL_PATH.name
MIN_REQUESTS = 5
MIN_RATIO = 1.3
MIN_DELTA_US = 1000.0
"""A kind of request became slower when its mean is 1.3 times and at least 1 ms above the
baseline's."""
MIN_ERRORS = 3.0
"""And the difference is three standard errors (Welch)."""
TRIM = 0.95
"""Requests slower than this quantile of their side are left out: one stuck request is no
slowdown."""
MOST = 0.5
"""A service carries a slowdown when it has at least this share of it."""
MAX_FINDINGS = 1
NOW, BEFORE = "now", "before"
SELF, LOST = "own", "lost"


def critical_path(
    calls: pl.DataFrame, visits: pl.DataFrame, windows: Windows, evidence: tuple[str, ...]
) -> list[Finding]:
    """The service that carries the largest slowdown in all, if one carries most of it.

    `calls` and `visits` are those of faultline.analysis.requests.critical_path (`calls_made`,
    `own_times`).
    """
    parts = _parts(calls, visits, windows)
    if parts["side"].n_unique() < 2:
        return []
    slowest = _slower(parts).head(MAX_FINDINGS)
    return [_finding(row, evidence) for row in slowest.iter_rows(named=True)]


def _parts(calls: pl.DataFrame, visits: pl.DataFrame, windows: Windows) -> pl.DataFrame:
    """Per request its parts: root, side, root_service, root_operation, first (call), total_us;
    service, how, us."""
    visits = _scaled(_with_calls(visits, calls))
    # Only a span that is around one call alone tells what was lost between the two.
    lost = pl.when("dedicated").then(pl.col("us_call") - pl.col("callee_us")).clip(lower_bound=0)
    alias = (pl.col("own_us") * pl.col("scale")).alias("us")
    lost_us = (lost * pl.col("scale")).alias("us")
    self_parts = visits.select("root", "service", pl.lit(SELF).alias("how"), alias)
    gaps = visits.select("root", "service", pl.lit(LOST).alias("how"), lost_us)
    both = pl.concat([self_parts, gaps.filter(pl.col("us") > 0)])
    parts = both.group_by("root", "service", "how").agg(pl.col("us").sum())
    return parts.join(_roots(visits, calls, windows), on="root", how="inner")


def _with_calls(visits: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Each visit with the call that made it, and `called`: the time that its calls take."""
    made = calls.select(
        pl.col("row").alias("visit"), "caller_visit", "us", "callee_us", "dedicated"
    )
    visits = visits.join(made, on="visit", how="left", suffix="_call", maintain_order="left")
    spent = calls.group_by("caller_visit").agg(pl.col("us").sum().alias("called"))
    return visits.join(
        spent, left_on="visit", right_on="caller_visit", how="left", maintain_order="left"
    )


def _roots(visits: pl.DataFrame, calls: pl.DataFrame, windows: Windows) -> pl.DataFrame:
    """The requests of either window: service and operation, what it called first, and how long it
    took."""
    side = windows.side("start", searched=NOW, baseline=BEFORE)
    in_order = calls.sort("start", "row")
    first = in_order.unique("caller_visit", keep="first", maintain_order=True).select(
        pl.col("caller_visit").alias("visit"),
        "callee",
        pl.col("operation").alias("called_operation"),
    )
    first_call = pl.concat_str("callee", pl.lit(" "), "called_operation").fill_null("")
    roots = visits.filter(pl.col("visit") == pl.col("root")).join(first, on="visit", how="left")
    return roots.select(
        "root",
        side.alias("side"),
        pl.col("service").alias("root_service"),
        pl.col("operation").alias("root_operation"),
        first_call.alias("first"),
        pl.col("us").alias("total_us"),
    ).filter(pl.col("side").is_not_null())


def _scaled(visits: pl.DataFrame) -> pl.DataFrame:
    """The visits with their `root` and `scale`: the share of their time that their request waits
    for them alone."""
    index = pl.DataFrame({"caller_visit": visits["visit"], "at": np.arange(visits.height)})
    at = visits.join(index, on="caller_visit", how="left", maintain_order="left")["at"]
    here = np.arange(visits.height)
    above = np.where(at.is_null().to_numpy(), here, at.fill_null(0).to_numpy())
    # Calls that overlap take longer in sum than the visit waits: share the wait out among them.
    waited = (visits["us"] - visits["own_us"]).to_numpy()
    called = np.maximum(visits["called"].fill_null(0.0).to_numpy(), 1e-9)
    # Factors along the path multiply, so that their logarithms can be summed.
    factor = np.log(np.clip(waited / called, 1e-6, 1.0))
    scale = np.where(above == here, 0.0, factor[above])
    # Each pass doubles the number of calls that are followed upward.
    for _ in range(MAX_DEPTH_BITS):
        if np.array_equal(above[above], above):
            break
        scale = scale + scale[above]
        above = above[above]
    root = visits["visit"].to_numpy()[above]
    return visits.with_columns(pl.Series("root", root), pl.Series("scale", np.exp(scale)))


def _slower(parts: pl.DataFrame) -> pl.DataFrame:
    """Per kind of request that became slower its largest part, the largest slowdown in all first.

    Columns root_service, root_operation, first, n, n_before, mean_before, delta_us, service, how,
    part_us.
    """
    by = ["root_service", "root_operation", "first"]
    roots = parts.unique("root", keep="first").select("root", "side", *by, "total_us")
    requests = roots.filter(
        pl.col("total_us") <= pl.col("total_us").quantile(TRIM).over("side", *by)
    )
    now = pl.col("side") == NOW
    kinds = _slower_kinds(requests, by)
    sums = (
        parts.join(requests.select("root"), on="root", how="semi")
        .group_by(*by, "service", "how")
        .agg(
            pl.col("us").filter(now).sum().alias("us"),
            pl.col("us").filter(~now).sum().alias("us_before"),
        )
    )
    part = pl.col("us") / pl.col("n") - pl.col("us_before") / pl.col("n_before")
    rows = kinds.join(sums, on=by).with_columns(part.alias("part_us"))
    rows = rows.filter(pl.col("part_us") >= MOST * pl.col("delta_us"))
    rows = rows.sort("part_us", *by, "service", "how", descending=[True, *[False] * 5])
    rows = rows.unique(by, keep="first", maintain_order=True)
    in_all = pl.col("delta_us") * pl.col("n")
    return rows.sort(in_all, *by, descending=[True, False, False, False])


def _slower_kinds(requests: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """The kinds of request that became slower, with `delta_us`."""
    total, now = pl.col("total_us"), pl.col("side") == NOW
    kinds = requests.group_by(by).agg(
        now.sum().alias("n"),
        (~now).sum().alias("n_before"),
        total.filter(now).mean().alias("mean"),
        total.filter(~now).mean().alias("mean_before"),
        (total.filter(now).var() / now.sum()).alias("var"),
        (total.filter(~now).var() / (~now).sum()).alias("var_before"),
    )
    delta = pl.col("mean") - pl.col("mean_before")
    standard_error = (pl.col("var") + pl.col("var_before")).sqrt()
    return kinds.filter(
        pl.col("n") >= MIN_REQUESTS,
        pl.col("n_before") >= MIN_REQUESTS,
        pl.col("mean") >= MIN_RATIO * pl.col("mean_before"),
        delta >= MIN_DELTA_US,
        delta >= MIN_ERRORS * standard_error,
    ).with_columns(delta.alias("delta_us"))


def _finding(row: Mapping[str, Any], evidence: tuple[str, ...]) -> Finding:
    service, operation = plain(row["service"]), plain(row["root_operation"], 60)
    first = f" that first call {plain(row['first'], 60)}" if row["first"] else ""
    share = min(1.0, row["part_us"] / row["delta_us"])
    percent, ms = rounded(100 * share, 3), rounded(row["delta_us"] / 1000, 3)
    what = (
        f"is {service}'s own time" if row["how"] == SELF else f"is lost on the calls to {service}"
    )
    sure = 1.0 - math.exp(-min(row["n"], row["n_before"]) / 4.0)
    # Beside a mean near zero every delay would be large: at least two milliseconds.
    size = 1.0 - math.exp(-row["delta_us"] / max(row["mean_before"], 2 * MIN_DELTA_US))
    return Finding(
        id="",
        kind=KIND,
        subject=row["service"],
        signal="latency",
        effect=ms,
        effect_unit="ms",
        strength=round(share * sure * size, 4),
        sentence=f"{number(percent, 3)} % of the {number(ms, 3)} ms by which requests through "
        f"{operation} of "
        f"{plain(row['root_service'])}{first} became slower {what}.",
        numbers={"percent": percent, "slower_ms": ms},
        evidence=evidence,
        series={
            "table": "spans",
            "service": row["root_service"],
            "operation": row["root_operation"],
        },
        details=RequestPathDetails(
            signal_class="latency",
            bad=True,
            direction="up",
            how=row["how"],
            requests=row["n"],
            baseline_requests=row["n_before"],
        ),
    )
