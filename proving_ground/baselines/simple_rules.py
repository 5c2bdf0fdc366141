"""Rules that need no tuning, after SimpleRCA of arXiv 2510.04711, which matches learned methods.

Error words in logs, then slow spans, then metrics beyond six sigmas: the first kind of evidence
that a service has decides its place, and within a kind how strong it is.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import polars as pl

from faultline.analysis.case.windows import Windows, log_windows, span_windows
from proving_ground.baselines.inputs import BaselineInputs

SIGMAS = 6.0
ERROR_WORDS = r"(?i)error|exception|fail|timeout|timed out|refused|fatal|panic"
LOGS, SPANS, METRICS = 2e9, 1e9, 0.0
"""What each kind of evidence adds: more than any strength within another."""
MOST = 1e8


def simple_rules(inputs: BaselineInputs) -> list[str]:
    """Services with evidence, the strongest first; all others by their largest metric."""
    scores: dict[str, float] = defaultdict(float)
    for series in inputs.series:
        spread = float(np.std(series.before)) or 1.0
        sigmas = abs(float(np.mean(series.now) - np.mean(series.before))) / spread
        scores[series.service] = max(scores[series.service], METRICS + min(sigmas, MOST))
    for service, sigmas in _slow_spans(inputs).items():
        if sigmas > SIGMAS:
            scores[service] = max(scores[service], SPANS + min(sigmas, MOST))
    for service, sigmas in _error_lines(inputs).items():
        if sigmas > SIGMAS:
            scores[service] = max(scores[service], LOGS + min(sigmas, MOST))
    return sorted(scores, key=lambda service: (-scores[service], service))


def _error_lines(inputs: BaselineInputs) -> dict[str, float]:
    """How many more lines with an error word than before, in sigmas of a Poisson count."""
    windows = log_windows(inputs.case)
    lines = inputs.case.logs.filter(pl.col("message").str.contains(ERROR_WORDS))
    counts = _counted(lines, windows, "time")
    seconds = sum(window.seconds for window in windows.baseline)
    expected = windows.search.seconds / seconds if seconds else 0.0
    error_lines = {}
    for service, before, now in counts.select("service", "before", "now").iter_rows():
        usual = before * expected
        error_lines[service] = (now - usual) / math.sqrt(max(usual, 1.0))
    return error_lines


def _slow_spans(inputs: BaselineInputs) -> dict[str, float]:
    """By service how far the mean duration of its spans rose, in standard errors."""
    windows = span_windows(inputs.case)
    spans = inputs.case.spans.drop_nulls(["service", "duration_us"]).with_columns(
        windows.in_baseline("start").alias("is_before"), windows.in_search("start").alias("is_now")
    )
    before = pl.col("duration_us").filter("is_before")
    now = pl.col("duration_us").filter("is_now")
    means = spans.group_by("service").agg(
        (now.mean() - before.mean()).alias("rise"), before.std().alias("spread"), now.len()
    )
    slow_spans = {}
    for service, rise, spread, count in means.iter_rows():
        if rise is not None and spread:
            slow_spans[service] = rise / (spread / math.sqrt(count))
    return slow_spans


def _counted(rows: pl.DataFrame, windows: Windows, time: str) -> pl.DataFrame:
    return (
        rows.drop_nulls("service")
        .group_by("service")
        .agg(
            windows.in_baseline(time).sum().alias("before"),
            windows.in_search(time).sum().alias("now"),
        )
    )
