"""Which operations became slower or failed more often, and on which calls time is lost between
caller and callee.

Three tables over baseline and incident spans: what a visit to a service (one entry of a request
into it) spends itself, its duration less its waits for others; per edge the gap, a client span less
the callee's span: the time neither side was working; and the error share per service and operation.
With them go the critical path, the origin of errors and changed call patterns, which read the same
visits and calls.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

from faultline.analysis.analyzers import Analyzer
from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import Windows, span_windows
from faultline.analysis.kinds.finding_details import SpanShiftDetails
from faultline.analysis.kinds.finding_kinds import (
    CALL_GAP,
    CALLEE_MISSING,
    CRITICAL_PATH,
    ERROR_ORIGIN,
    FAN_OUT,
    RETRIES,
    SPAN_ERRORS,
    SPAN_SELF_TIME,
)
from faultline.analysis.requests.call_patterns import call_patterns
from faultline.analysis.requests.critical_path import (
    calls_made,
    critical_path,
    self_times,
    visits_of,
)
from faultline.analysis.requests.error_origin import FAILED, error_origins
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import number, plain, rounded

# Which of two services answers for the time lost between them.
#
# A delay at one service (its network, its queue, a starved process) shows on the edges that touch
# it; what a callee takes itself is no gap, so gaps do not travel from callee to caller. An edge's
# gap is put down to the side whose other edges are delayed more, and without such evidence to the
# callee.

CALLEE_FIRST = 0.2
"""The evidence against the callee before any other edge is considered: as strong as one more edge
of it."""

Edge = tuple[str, str]
"""Caller, callee."""


def accountable(
    delayed: Mapping[Edge, float], calls: pl.DataFrame, min_calls: int
) -> dict[Edge, str]:
    """Per delayed edge, with its strength in [0, 1]: the service that answers for it.

    `calls` has a row per measured call (caller, callee, window); an edge that was measured
    `min_calls` times in both windows and is not delayed is healthy, and speaks for both its
    services.
    """
    # The edges that were measured often enough in both windows.
    counts = calls.group_by("caller", "callee", "window").len()
    often = counts.filter(pl.col("len") >= min_calls)
    windows = often.group_by("caller", "callee").len("windows")
    both = windows.filter(pl.col("windows") == 2).select("caller", "callee")
    edges = set(both.iter_rows()) | set(delayed)
    total: dict[str, float] = defaultdict(float)
    touching: dict[str, int] = defaultdict(int)
    # Sorted, so that the sums of strengths are the same each time.
    for edge in sorted(edges):
        for service in edge:
            total[service] += delayed.get(edge, 0.0)
            touching[service] += 1
    blamed = {}
    for (caller, callee), strength in delayed.items():
        as_caller = (total[caller] - strength) / touching[caller]
        as_callee = (total[callee] - strength + CALLEE_FIRST) / touching[callee]
        blamed[caller, callee] = caller if as_caller > as_callee else callee
    return blamed


SELF_TIME = SPAN_SELF_TIME.name
ERRORS = SPAN_ERRORS.name
GAP = CALL_GAP.name
MIN_SPANS = 3
"""Fewer spans than this on either side say nothing about a latency."""
MIN_RATIO = 1.3
MIN_DELTA_US = 1000.0
"""A latency moved when its median is 1.3 times and at least 1 ms above the baseline's."""
MIN_ERROR_SHARE = 0.05
_WINDOW = "window"


def span_shifts(case: Case) -> list[Finding]:
    """Findings about own time, errors and call gaps; empty without spans on both sides."""
    if not case.spans.height:
        return []
    windows = span_windows(case)
    evidence = case.evidence_ids("spans")
    spans = visits_of(case)
    calls = calls_made(spans)
    visits = self_times(spans, calls)
    window_visits = _in_windows(visits, windows, "start")
    # A span around several calls does not tell between which two the time was lost.
    gaps = _in_windows(calls.filter("dedicated"), windows, "start")
    return [
        *_latencies(window_visits, gaps, evidence),
        *critical_path(calls, visits, windows, evidence),
        *error_origins(spans, calls, windows, evidence),
        *call_patterns(spans, calls, windows, evidence),
        *_errors(_in_windows(case.spans, windows, "start"), evidence),
    ]


ANALYZER = Analyzer(
    span_shifts,
    kinds=(
        SPAN_SELF_TIME,
        CALL_GAP,
        SPAN_ERRORS,
        CRITICAL_PATH,
        ERROR_ORIGIN,
        FAN_OUT,
        RETRIES,
        CALLEE_MISSING,
    ),
)


@dataclass(frozen=True)
class SlowerVisits:
    """How much longer requests take in a service, whoever is to blame: medians in ms of the
    operation that lost most."""

    baseline_ms: float
    incident_ms: float
    onset: datetime | None


def slower_visits(case: Case) -> dict[str, SlowerVisits]:
    """The services in which requests take longer as a whole, their waits for others included."""
    if not case.spans.height:
        return {}
    visits = visits_of(case).filter("entry").with_columns(pl.col("duration_us").alias("us"))
    moved = _compared(_in_windows(visits, span_windows(case), "start"), ["service", "operation"])
    slower_by_service: dict[str, SlowerVisits] = {}
    # The largest delay comes first and stands for its service.
    for row in sorted(moved.iter_rows(named=True), key=_delay, reverse=True):
        before, after = rounded(row["us_before"] / 1000), rounded(row["us"] / 1000)
        onset = row["onset"]
        slower_by_service.setdefault(
            row["service"],
            SlowerVisits(before, after, onset if isinstance(onset, datetime) else None),
        )
    return slower_by_service


def _in_windows(rows: pl.DataFrame, windows: Windows, time: str) -> pl.DataFrame:
    """Rows of either window, with `window` "baseline" or "incident"; the incident wins where they
    overlap."""
    side = windows.side(time, searched="incident", baseline="baseline")
    return rows.with_columns(side.alias(_WINDOW)).filter(pl.col(_WINDOW).is_not_null())


def _latencies(
    visits: pl.DataFrame, gaps: pl.DataFrame, evidence: tuple[str, ...]
) -> Iterator[Finding]:
    """A small delay beside a large one is its effect or chance: each counts by its share of the
    largest per request."""
    slower = _compared(visits.with_columns(pl.col("own_us").alias("us")), ["service", "operation"])
    # Clocks of two hosts differ, so a negative gap is no gain.
    lost = (pl.col("us") - pl.col("callee_us")).clip(lower_bound=0)
    apart = _compared(gaps.with_columns(lost.alias("us")), ["caller", "callee"])
    largest = max(_largest_delay(slower), _largest_delay(apart))
    for row in slower.iter_rows(named=True):
        service, operation = row["service"], row["operation"]
        yield _latency_finding(
            SELF_TIME,
            service,
            f"{plain(service)} itself spends {_ms(row['us'])} ms in {plain(operation, 60)}",
            row,
            evidence,
            {"table": "spans", "service": service, "operation": operation},
            largest,
        )
    yield from _gaps(apart, gaps, evidence, largest)


def _largest_delay(moved: pl.DataFrame) -> float:
    return max((_delay(row) for row in moved.iter_rows(named=True)), default=0.0)


def _gaps(
    apart: pl.DataFrame, gaps: pl.DataFrame, evidence: tuple[str, ...], largest: float
) -> Iterator[Finding]:
    strengths = {}
    for row in apart.iter_rows(named=True):
        strengths[row["caller"], row["callee"]] = _strength(row)
    # If many edges into one service lose time at once, the service is at fault.
    blamed = accountable(strengths, gaps, MIN_SPANS)
    for row in apart.iter_rows(named=True):
        caller, callee = row["caller"], row["callee"]
        subject = blamed[caller, callee]
        finding = _latency_finding(
            GAP,
            subject,
            f"{plain(caller)}'s calls to {plain(callee)} lose {_ms(row['us'])} ms between the two",
            row,
            evidence,
            {"table": "spans", "service": callee, "caller": caller},
            largest,
        )
        between = finding.details.model_copy(update={"caller": caller, "callee": callee})
        yield finding.model_copy(update={"details": between})


def _delay(row: Mapping[str, Any]) -> float:
    """Microseconds per request that the delay adds, for a request that meets it."""
    longer = _float(row["us"]) - _float(row["us_before"])
    # Calls per request count: a short delay that is met often costs as much as a long one.
    return longer * _float(row["n"]) / max(1.0, _float(row["requests"]))


def _compared(rows: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Per group: median on both sides, the incident's share above the baseline's 95th percentile,
    counts, onset."""
    empty = pl.DataFrame()
    if not rows.height:
        return empty
    us, is_high = pl.col("us"), pl.col("us") > pl.col("us_high")
    sides = rows.partition_by(_WINDOW, as_dict=True)
    usual, during = sides.get(("baseline",)), sides.get(("incident",))
    if usual is None or during is None:
        return empty
    base = usual.group_by(by).agg(
        us.median().alias("us_before"),
        us.quantile(0.95).alias("us_high"),
        (us - us.median()).abs().median().alias("us_mad"),
        pl.len().alias("n_before"),
    )
    both_windows = during.join(base, on=by, how="inner")
    out = both_windows.group_by(by).agg(
        us.median().alias("us"),
        us.mean().alias("us_mean"),
        is_high.mean().alias("above"),
        pl.col("start").filter(is_high).min().alias("onset"),
        pl.len().alias("n"),
        pl.col("trace_id").n_unique().alias("requests"),
        pl.col("us_before", "us_high", "us_mad", "n_before").first(),
    )
    before = pl.col("us_before")
    moved = (us >= MIN_RATIO * before) & (us - before >= MIN_DELTA_US)
    enough = (pl.col("n") >= MIN_SPANS) & (pl.col("n_before") >= MIN_SPANS)
    return out.filter(moved & enough).sort(by)


def _latency_finding(
    kind: str,
    subject: str,
    start_of_sentence: str,
    row: Mapping[str, Any],
    evidence: tuple[str, ...],
    series: dict[str, str],
    largest: float,
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
        # The root keeps smaller delays in sight beside the largest.
        strength=round(_strength(row) * math.sqrt(_delay(row) / largest), 4),
        sentence=f"{start_of_sentence}, {times} the baseline's {_ms(before)} ms.",
        numbers=numbers,
        evidence=evidence,
        series=series,
        details=SpanShiftDetails(
            signal_class="latency",
            bad=True,
            direction="up",
            delta_ms=rounded((after - before) / 1000),
            spans=row["n"],
            baseline_spans=row["n_before"],
        ),
    )


def _strength(row: Mapping[str, Any]) -> float:
    """In [0, 1]: how much of the incident lies above the baseline's 95th percentile, how large, on
    how many spans."""
    before, after = _float(row["us_before"]), _float(row["us"])
    above = max(0.0, (_float(row["above"]) - 0.05) / 0.95)
    # Beside a baseline near zero every delay would be large: at least two milliseconds.
    size = 1.0 - math.exp(-(after - before) / max(before, 2 * MIN_DELTA_US))
    support = 1.0 - math.exp(-min(_float(row["n"]), _float(row["n_before"])) / 4.0)
    return max(0.0, min(1.0, (0.35 + 0.65 * above) * size * support))


def _errors(spans: pl.DataFrame, evidence: tuple[str, ...]) -> Iterator[Finding]:
    failed = pl.col("status").fill_null("").str.contains(FAILED)
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
    risen = shares.filter(pl.col("share") >= pl.col("share_before") + MIN_ERROR_SHARE).sort(by)
    for row in risen.iter_rows(named=True):
        share, share_before = row["share"], row["share_before"]
        percent, before = rounded(100 * share, 3), rounded(100 * share_before, 3)
        support = 1.0 - math.exp(-row["failures"] / 3.0)
        service, operation = plain(row["service"]), plain(row["operation"], 60)
        yield Finding(
            id="",
            kind=ERRORS,
            subject=row["service"],
            signal="errors",
            onset=row["onset"],
            effect=rounded(percent - before, 3),
            effect_unit="percentage points",
            strength=round(min(1.0, (share - share_before) ** 0.5 * support), 4),
            sentence=f"{number(percent, 3)} % of {service} {operation} spans fail, "
            f"{number(before, 3)} % in the baseline.",
            numbers={"percent": percent, "baseline_percent": before},
            evidence=evidence,
            series={"table": "spans", "service": row["service"], "operation": row["operation"]},
            details=SpanShiftDetails(
                signal_class="errors",
                bad=True,
                direction="up",
                spans=row["n"],
                baseline_spans=row["n_before"],
            ),
        )


def _ms(us: float) -> str:
    return number(us / 1000)


def _float(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
