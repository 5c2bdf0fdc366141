"""How services call each other: more calls per request than before, repeated calls after failures,
callees not reached.

More calls of one operation per visit (N+1, lost cache, wider fan-out) are the caller's doing. Calls
that are repeated after they failed, and client spans that no longer have the server span that they
always had, accuse the callee.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

import faultline.analysis.kinds.finding_kinds as kinds
from faultline.analysis.case.windows import Windows
from faultline.analysis.kinds.finding_details import CallPatternDetails
from faultline.analysis.requests.error_origin import FAILED
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import number, plain, rounded

FAN_OUT, RETRIES, UNREACHED = kinds.FAN_OUT.name, kinds.RETRIES.name, kinds.CALLEE_MISSING.name
MIN_VISITS = 5
MIN_RATIO = 2.0
MIN_MORE = 3.0
"""Calls per visit doubled, and are at least three more: a loop, not a branch. The
mean is also above the baseline's 95th percentile: another mix of pages is no wider fan-out."""
MIN_SIGMAS = 3.0
ALWAYS = 0.9
"""A client span calls a service when this share of its kind in the baseline has a server span of it
below."""
MIN_RISE = 0.25
"""And the service is not reached when the share falls by this much; calls are repeated likewise."""
MAX_PER_KIND = 3
_EDGE = ["caller", "caller_operation", "callee", "operation"]


def call_patterns(
    spans: pl.DataFrame, calls: pl.DataFrame, windows: Windows, evidence: tuple[str, ...]
) -> list[Finding]:
    """At most three findings of each kind; `spans` and `calls` are those of
    faultline.analysis.requests.critical_path."""
    side = windows.side("start", searched=1, baseline=0)
    spans = spans.with_columns(side.alias("now")).filter(pl.col("now").is_not_null())
    entries = spans.filter("entry").select(
        pl.col("visit").alias("caller_visit"), pl.col("operation").alias("caller_operation"), "now"
    )
    failed = pl.col("status").fill_null("").str.contains(FAILED)
    outcomes = spans.select("row", failed.alias("failed"))
    made = calls.join(entries, on="caller_visit", how="inner", maintain_order="left")
    made = made.join(outcomes, on="row", how="inner")
    # Both windows are needed: there is nothing to compare a single one with.
    if made["now"].n_unique() < 2:
        return []
    # The calls with `repeats`: whether the visit's call before, to the same operation, had failed.
    by = ["caller_visit", "callee", "operation"]
    after_failure = pl.col("failed").shift(1).over(by).fill_null(value=False)
    made = made.sort(*by, "start", "row").with_columns(after_failure.alias("repeats"))
    return [
        *_fan_outs(made, evidence),
        *_retries(made, evidence),
        *_unreached(spans, calls, evidence),
    ]


def _fan_outs(made: pl.DataFrame, evidence: tuple[str, ...]) -> Iterator[Finding]:
    rows = _wider(made).sort("mean", *_EDGE, descending=[True, *[False] * 4])
    for row in rows.head(MAX_PER_KIND).iter_rows(named=True):
        calls, before = rounded(row["mean"], 3), rounded(row["mean_before"], 3)
        sentence = (
            f"{plain(row['caller'])} makes {number(calls, 3)} calls to {plain(row['callee'])} "
            f"{plain(row['operation'], 60)} in each {plain(row['caller_operation'], 60)}, "
            f"{number(before, 3)} in the baseline."
        )
        size = 1.0 - row["mean_before"] / row["mean"]
        numbers = {"calls": calls, "baseline_calls": before}
        yield _finding(
            FAN_OUT, row["caller"], row, sentence, numbers, size, row["visits"], evidence
        )


def _wider(made: pl.DataFrame) -> pl.DataFrame:
    """The edges on which a visit makes more calls than before."""
    # Repeats are reported as retries, and would count twice as a wider fan-out.
    first_tries = made.filter(~pl.col("repeats"))
    visits = first_tries.group_by("caller_visit", "now", *_EDGE).agg(pl.len().alias("n"))
    n, now = pl.col("n"), pl.col("now") == 1
    rows = visits.group_by(_EDGE).agg(
        n.filter(now).mean().alias("mean"),
        n.filter(~now).mean().alias("mean_before"),
        n.filter(now).var().alias("var"),
        n.filter(~now).var().alias("var_before"),
        now.sum().alias("visits"),
        (~now).sum().alias("visits_before"),
        n.filter(~now).quantile(0.95).alias("high"),
    )
    more = pl.col("mean") - pl.col("mean_before")
    variance = pl.col("var") / pl.col("visits")
    variance_before = pl.col("var_before") / pl.col("visits_before")
    return rows.filter(
        pl.col("visits") >= MIN_VISITS,
        pl.col("visits_before") >= MIN_VISITS,
        pl.col("mean") >= MIN_RATIO * pl.col("mean_before"),
        pl.col("mean") > pl.col("high"),
        more >= MIN_MORE,
        more >= MIN_SIGMAS * (variance + variance_before).sqrt(),
    )


def _retries(made: pl.DataFrame, evidence: tuple[str, ...]) -> Iterator[Finding]:
    by = ["caller", "callee", "operation"]
    shares = _shares(made, pl.col("repeats"), by)
    rows = shares.filter(pl.col("share") - pl.col("share_before") >= MIN_RISE)
    rows = rows.sort("share", *by, descending=[True, False, False, False])
    for row in rows.head(MAX_PER_KIND).iter_rows(named=True):
        percent, before = _percents(row)
        sentence = (
            f"{number(percent, 3)} % of the calls from {plain(row['caller'])} to "
            f"{plain(row['callee'])} "
            f"{plain(row['operation'], 60)} repeat one that failed, {number(before, 3)} % in the "
            "baseline."
        )
        size = row["share"] - row["share_before"]
        yield _finding(
            RETRIES, row["callee"], row, sentence, _percent_numbers(row), size, row["n"], evidence
        )


def _unreached(
    spans: pl.DataFrame, calls: pl.DataFrame, evidence: tuple[str, ...]
) -> Iterator[Finding]:
    """Of the client spans of one operation of a caller, the share with a server span below, where
    all had one."""
    by = ["service", "within", "operation"]
    rows = _leaving(spans, calls)
    # Only an operation that always called the same service can be said not to reach it.
    before = rows.filter(pl.col("now") == 0, pl.col("callee").is_not_null())
    usual = before.group_by(by).agg(
        pl.col("callee").first().alias("usual"), pl.col("callee").n_unique().alias("n_usual")
    )
    usual = usual.filter(pl.col("n_usual") == 1).drop("n_usual")
    shares = _shares(rows.join(usual, on=by), pl.col("callee").is_null(), [*by, "usual"])
    gone = shares.filter(
        pl.col("share_before") <= 1 - ALWAYS,
        pl.col("share") - pl.col("share_before") >= MIN_RISE,
    ).sort("share", *by, descending=[True, False, False, False])
    # One finding for each callee: all its callers miss the same service.
    clearest = gone.unique("usual", keep="first", maintain_order=True)
    for row in clearest.head(MAX_PER_KIND).iter_rows(named=True):
        percent, before_percent = _percents(row)
        sentence = (
            f"{number(percent, 3)} % of the calls from {plain(row['service'])} "
            f"({plain(row['operation'], 60)}) "
            f"leave no trace in {plain(row['usual'])}, {number(before_percent, 3)} % in the "
            "baseline."
        )
        size = row["share"] - row["share_before"]
        yield _finding(
            UNREACHED,
            row["usual"],
            row | {"caller": row["service"]},
            sentence,
            _percent_numbers(row),
            size,
            row["n"],
            evidence,
        )


def _leaving(spans: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """The spans below an entry, with the operation entered (`within`) and the service that they
    reach, if any."""
    reached = calls.select(pl.col("parent").alias("row"), "callee")
    reached = reached.unique("row", keep="first", maintain_order=True)
    entered = spans.filter("entry").select("visit", pl.col("operation").alias("within"))
    below = spans.filter(~pl.col("entry"))
    below = below.select("visit", "row", "service", "operation", "now", "entry")
    rows = below.join(entered, on="visit")
    return rows.join(reached, on="row", how="left", maintain_order="left")


def _shares(rows: pl.DataFrame, holds: pl.Expr, by: list[str]) -> pl.DataFrame:
    """Per group the share that holds on both sides, where it rose by three standard errors; n,
    n_before."""
    now = pl.col("now") == 1
    counts = rows.group_by(by).agg(
        (holds & now).sum().alias("k"),
        (holds & ~now).sum().alias("k_before"),
        now.sum().alias("n"),
        (~now).sum().alias("n_before"),
    )
    n, n_before, k, k_before = (pl.col(name) for name in ("n", "n_before", "k", "k_before"))
    shares = counts.filter(n >= MIN_VISITS, n_before >= MIN_VISITS).with_columns(
        (k / n).alias("share"), (k_before / n_before).alias("share_before")
    )
    # One more of each outcome, so that a share of 0 or 1 has an error as well.
    pooled = (k + k_before + 1) / (n + n_before + 2)
    error = (pooled * (1 - pooled) * (1 / n + 1 / n_before)).sqrt()
    return shares.filter(pl.col("share") - pl.col("share_before") >= MIN_SIGMAS * error)


def _percents(row: Mapping[str, Any]) -> tuple[float, float]:
    return rounded(100 * row["share"], 3), rounded(100 * row["share_before"], 3)


def _percent_numbers(row: Mapping[str, Any]) -> dict[str, float]:
    percent, before = _percents(row)
    return {"percent": percent, "baseline_percent": before}


def _finding(
    kind: str,
    subject: str,
    row: Mapping[str, Any],
    sentence: str,
    numbers: dict[str, float],
    size: float,
    n: int,
    evidence: tuple[str, ...],
) -> Finding:
    return Finding(
        id="",
        kind=kind,
        subject=subject,
        signal="calls",
        strength=round(min(1.0, math.sqrt(max(0.0, size)) * (1.0 - math.exp(-n / 5.0))), 4),
        sentence=sentence,
        numbers=numbers,
        evidence=evidence,
        series={"table": "spans", "service": row.get("callee", subject), "caller": row["caller"]},
        details=CallPatternDetails(
            signal_class="other" if kind == FAN_OUT else "errors",
            bad=True,
            caller=row["caller"],
        ),
    )
