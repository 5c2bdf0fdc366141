"""Series that spans make: how long calls to a peer take, and how many of them fail, step by step.

Of a peer that sends no spans and has no metrics these are all that can be known. The same series of
calls that the other side answers with spans made recorded systems worse: its own say it better.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import span_windows
from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.requests.error_origin import FAILED
from faultline.analysis.requests.peers import peer_calls
from faultline.analysis.requests.visits import visits_of
from faultline.analysis.suspects.deviations import Deviation, Points, deviation_of

STEPS_S = (30, 60, 120, 300, 600)
"""The shortest step in which most hold enough calls is taken."""
ENOUGH_CALLS = 4
LEAST_STEPS = 2
"""Of the incident; a series with fewer steps on a side has no course."""
PEER = "peer"
"""The label that names the callee, as metrics of calls name it."""
SERIES = (
    ("duration_us", "call_duration_us", SignalClass.LATENCY),
    ("failed", "call_error_ratio", SignalClass.ERRORS),
)


def call_deviations(case: Case) -> list[Deviation]:
    """Duration and share of failures of every pair of caller and callee that has spans in both
    windows."""
    if not case.spans.height:
        return []
    made = peer_calls(visits_of(case))
    windows = span_windows(case)
    side = windows.side("start", searched=1, baseline=0)
    failed = pl.col("status").fill_null("").str.contains(FAILED)
    rows = made.with_columns(side.alias("now"), failed.alias("failed")).filter(
        pl.col("now").is_not_null()
    )
    deviations = []
    for (caller, callee), pair in sorted(rows.group_by("caller", "callee"), key=lambda g: g[0]):
        for points in _points(str(caller), str(callee), pair):
            deviation = deviation_of(points)
            if deviation is not None:
                deviations.append(deviation)
    return deviations


def _points(caller: str, callee: str, pair: pl.DataFrame) -> Iterator[Points]:
    """The pair's two series; none where calls are too few to have a course."""
    step = _step(pair)
    if step is None:
        return
    steps = (
        pair.group_by("now", pl.col("start").dt.truncate(f"{step}s"))
        .agg(
            pl.col("duration_us").median().alias("duration_us"),
            pl.col("failed").mean().alias("failed"),
            pl.len().alias("calls"),
        )
        # Groups come in any order, and a series has to be in the order of time.
        .sort("start")
    )
    before, now = steps.filter(pl.col("now") == 0), steps.filter(pl.col("now") == 1)
    if min(before.height, now.height) < LEAST_STEPS:
        return
    for column, signal, signal_class in SERIES:
        noise = _noise_of_share(pair, steps) if column == "failed" else 0.0
        yield Points(
            service=caller,
            signal=signal,
            signal_class=signal_class,
            labels={PEER: callee},
            before_times=before["start"].dt.epoch("ns").to_numpy(),
            before=before[column].to_numpy().astype(np.float64),
            times=now["start"].dt.epoch("ns").to_numpy(),
            values=now[column].to_numpy().astype(np.float64),
            least_noise=noise,
        )


def _noise_of_share(pair: pl.DataFrame, steps: pl.DataFrame) -> float:
    """Standard error of a step's share of failures at the baseline's rate, which is never none."""
    before = pair.filter(pl.col("now") == 0)
    # One half more of each: a rate of zero would have no noise at all.
    rate = (float(before["failed"].sum()) + 0.5) / (before.height + 1)
    calls = float(np.median(steps["calls"].to_numpy()))
    return math.sqrt(rate * (1 - rate) / calls)


def _step(pair: pl.DataFrame) -> int | None:
    for step in STEPS_S:
        counts = pair.group_by("now", pl.col("start").dt.truncate(f"{step}s")).len()["len"]
        if float(np.median(counts.to_numpy())) >= ENOUGH_CALLS:
            return step
    return None
