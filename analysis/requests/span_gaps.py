"""Which of two services answers for the time lost between them.

A delay at one service (its network, its queue, a starved process) shows on the edges that touch it;
what a callee takes itself is no gap, so gaps do not travel from callee to caller. An edge's gap is
put down to the side whose other edges are delayed more, and without such evidence to the callee.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import polars as pl

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
