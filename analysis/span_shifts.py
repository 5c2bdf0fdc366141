"""Which operations became slower or failed more often, and on which calls time is lost between caller and callee.

Three tables over baseline and incident spans: the span's own time (its duration less its children's) and its error
share per service and operation, and per edge the gap: caller span less callee span, the time neither side was working.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime

import polars as pl

from analysis.case_folder import Case
from analysis.topology import call_edges
from analysis.vocabulary import Finding
from analysis.windows import Windows, span_windows
from analysis.wording import number, plain, rounded

OWN_TIME = "span_own_time"
ERRORS = "span_errors"
GAP = "call_gap"
MIN_SPANS = 3
"""Fewer spans than this on either side say nothing about a latency."""
MIN_RATIO = 1.3
MIN_DELTA_US = 1000.0
"""A latency moved when its median is 1.3 times and at least 1 ms above the baseline's."""
MIN_ERROR_SHARE = 0.05
_FAILED = r"(?i)^(error|status_code_error|2|5\d\d|fail.*)$"
_WINDOW = "window"


def span_shifts(case: Case) -> list[Finding]:
    """Findings about own time, errors and call gaps; empty without spans on both sides."""
    if not case.spans.height:
        return []
    windows = span_windows(case)
    evidence = case.evidence_ids("spans")
    spans = _in_windows(case.spans, windows, "start")
    gaps = _in_windows(call_edges(case.spans), windows, "start")
    return [
        *_own_time(spans, evidence),
        *_errors(spans, evidence),
        *_gaps(gaps, evidence),
    ]


def _in_windows(rows: pl.DataFrame, windows: Windows, time: str) -> pl.DataFrame:
    """Rows of either window, with `window` "baseline" or "incident"; the incident wins where they overlap."""
    tagged = rows.with_columns(
        pl.when(windows.in_search(time))
        .then(pl.lit("incident"))
        .when(windows.in_baseline(time))
        .then(pl.lit("baseline"))
        .alias(_WINDOW)
    )
    return tagged.filter(pl.col(_WINDOW).is_not_null())


def _own_time(spans: pl.DataFrame, evidence: tuple[str, ...]) -> Iterator[Finding]:
    """A span that waits for another service is left out: the call gap is measured on its edge."""
    children = spans.group_by("trace_id", pl.col("parent_id").alias("span_id")).agg(
        pl.col("duration_us").sum().alias("children_us"),
        pl.col("service").first().alias("callee"),
        pl.col("service").n_unique().alias("callees"),
    )
    own = spans.join(children, on=["trace_id", "span_id"], how="left").filter(
        pl.col("callee").is_null() | ((pl.col("callees") == 1) & (pl.col("callee") == pl.col("service")))
    )
    own = own.with_columns((pl.col("duration_us") - pl.col("children_us").fill_null(0)).clip(lower_bound=0).alias("us"))
    for row in _compared(own, ["service", "operation"]).iter_rows(named=True):
        service, operation = row["service"], row["operation"]
        yield _latency_finding(
            OWN_TIME,
            service,
            f"{plain(service)} spends {_ms(row['us'])} ms of its own in {plain(operation, 60)}",
            row,
            evidence,
            {"table": "spans", "service": service, "operation": operation},
        )


def _gaps(calls: pl.DataFrame, evidence: tuple[str, ...]) -> Iterator[Finding]:
    gaps = calls.with_columns((pl.col("caller_us") - pl.col("callee_us")).clip(lower_bound=0).alias("us"))
    for row in _compared(gaps, ["caller", "callee"]).iter_rows(named=True):
        caller, callee = row["caller"], row["callee"]
        finding = _latency_finding(
            GAP,
            callee,
            f"Calls from {plain(caller)} to {plain(callee)} lose {_ms(row['us'])} ms between the two",
            row,
            evidence,
            {"table": "spans", "service": callee, "caller": caller},
        )
        yield finding.model_copy(update={"details": {**finding.details, "caller": caller}})


def _compared(rows: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Per group: median on both sides, the incident's share above the baseline's 95th percentile, counts, onset."""
    empty = pl.DataFrame()
    if not rows.height:
        return empty
    us = pl.col("us")
    sides = rows.partition_by(_WINDOW, as_dict=True)
    before, during = sides.get(("baseline",)), sides.get(("incident",))
    if before is None or during is None:
        return empty
    base = before.group_by(by).agg(
        us.median().alias("us_before"),
        us.quantile(0.95).alias("us_high"),
        (us - us.median()).abs().median().alias("us_mad"),
        pl.len().alias("n_before"),
    )
    seen = during.join(base, on=by, how="inner")
    out = seen.group_by(by).agg(
        us.median().alias("us"),
        us.mean().alias("us_mean"),
        (us > pl.col("us_high")).mean().alias("above"),
        pl.col("start").filter(us > pl.col("us_high")).min().alias("onset"),
        pl.len().alias("n"),
        *[pl.col(c).first() for c in ("us_before", "us_high", "us_mad", "n_before")],
    )
    moved = (pl.col("us") >= MIN_RATIO * pl.col("us_before")) & (pl.col("us") - pl.col("us_before") >= MIN_DELTA_US)
    enough = (pl.col("n") >= MIN_SPANS) & (pl.col("n_before") >= MIN_SPANS)
    return out.filter(moved & enough).sort(by)


def _latency_finding(
    kind: str,
    subject: str,
    start_of_sentence: str,
    row: dict[str, object],
    evidence: tuple[str, ...],
    series: dict[str, str],
) -> Finding:
    before, after = _float(row["us_before"]), _float(row["us"])
    ratio = rounded(after / before, 3) if before > 0 else None
    numbers = {"incident_ms": rounded(after / 1000), "baseline_ms": rounded(before / 1000)}
    if ratio is not None:
        numbers["ratio"] = ratio
    onset = row["onset"]
    times = f"{number(ratio, 3)} times" if ratio is not None else "against"
    return Finding(
        id="",
        kind=kind,
        subject=subject,
        signal="latency",
        onset=onset if isinstance(onset, datetime) else None,
        effect=ratio if ratio is not None else rounded((after - before) / 1000),
        effect_unit="x" if ratio is not None else "ms",
        strength=round(_strength(row), 4),
        sentence=f"{start_of_sentence}, {times} the baseline's {_ms(before)} ms.",
        numbers=numbers,
        evidence=evidence,
        series=series,
        details={
            "class": "latency",
            "bad": True,
            "direction": "up",
            "delta_ms": rounded((after - before) / 1000),
            "spans": row["n"],
            "baseline_spans": row["n_before"],
        },
    )


def _strength(row: dict[str, object]) -> float:
    """In [0, 1]: how much of the incident lies above the baseline's 95th percentile, how large, on how many spans."""
    before, after = _float(row["us_before"]), _float(row["us"])
    above = max(0.0, (_float(row["above"]) - 0.05) / 0.95)
    size = 1.0 - math.exp(-(after - before) / max(before, 2 * MIN_DELTA_US))
    support = 1.0 - math.exp(-min(_float(row["n"]), _float(row["n_before"])) / 4.0)
    return max(0.0, min(1.0, (0.35 + 0.65 * above) * size * support))


def _errors(spans: pl.DataFrame, evidence: tuple[str, ...]) -> Iterator[Finding]:
    failed = pl.col("status").fill_null("").str.contains(_FAILED)
    by = ["service", "operation"]
    is_in = pl.col(_WINDOW) == "incident"
    shares = spans.group_by(by).agg(
        failed.filter(is_in).mean().alias("share"),
        failed.filter(~is_in).mean().fill_null(0.0).alias("share_before"),
        is_in.sum().alias("n"),
        (~is_in).sum().alias("n_before"),
        (failed & is_in).sum().alias("failures"),
        pl.col("start").filter(failed & is_in).min().alias("onset"),
    )
    for row in (
        shares.filter(pl.col("share") >= pl.col("share_before") + MIN_ERROR_SHARE).sort(by).iter_rows(named=True)
    ):
        percent, before = rounded(100 * row["share"], 3), rounded(100 * row["share_before"], 3)
        support = 1.0 - math.exp(-row["failures"] / 3.0)
        yield Finding(
            id="",
            kind=ERRORS,
            subject=row["service"],
            signal="errors",
            onset=row["onset"],
            effect=rounded(percent - before, 3),
            effect_unit="percentage points",
            strength=round(min(1.0, (row["share"] - row["share_before"]) ** 0.5 * support), 4),
            sentence=f"{number(percent, 3)} % of {plain(row['service'])} {plain(row['operation'], 60)} spans fail, "
            f"{number(before, 3)} % in the baseline.",
            numbers={"percent": percent, "baseline_percent": before},
            evidence=evidence,
            series={"table": "spans", "service": row["service"], "operation": row["operation"]},
            details={
                "class": "errors",
                "bad": True,
                "direction": "up",
                "spans": row["n"],
                "baseline_spans": row["n_before"],
            },
        )


def _ms(us: float) -> str:
    return number(us / 1000)


def _float(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
