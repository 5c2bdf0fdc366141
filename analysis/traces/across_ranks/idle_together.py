"""Times in which every rank was idle at once, with no collective pending: their cause is shared.

Storage, a checkpoint, a loader, a coordinator, garbage collection in all processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.columns.disjoint_intervals import Spans, intersection
from faultline.analysis.traces.columns.events import Int64
from faultline.analysis.traces.per_rank.long_idle import LONG_NS

MAX_INTERVALS = 64
"""Intervals kept: the longest."""


@dataclass(frozen=True)
class IdleTogether:
    """One interval in which no rank worked; ns in the first rank's time."""

    start_ns: int
    end_ns: int
    step: int | None
    """The first rank's step in which it begins."""
    host: str
    """What most hosts did meanwhile; "" where unknown."""
    hosts_alike: int
    """Ranks whose host did that."""

    @property
    def length_ns(self) -> int:
        """Its length."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class AllIdle:
    """All such intervals of at least 1 ms."""

    intervals: tuple[IdleTogether, ...]
    """By start, the longest MAX_INTERVALS."""
    total_ns: int
    share: float
    """Of the time from the first rank's first step (or first idle time) to its last."""


def idle_together(ranks: Sequence[RankSummary], offset: Int64) -> AllIdle:
    """The intersection of the ranks' long idle intervals. O(ranks x intervals)."""
    spans: Spans | None = None
    for summary, ahead in zip(ranks, offset.tolist(), strict=True):
        rank_idle = (summary.idle.start - ahead, summary.idle.end - ahead)
        spans = rank_idle if spans is None else intersection(spans, rank_idle)
        # An empty intersection stays empty, whatever the remaining ranks did.
        if not len(spans[0]):
            break
    if spans is None or not len(spans[0]):
        return AllIdle((), 0, 0.0)
    long = np.flatnonzero(spans[1] - spans[0] >= LONG_NS)
    lengths = (spans[1] - spans[0])[long]
    # Choose by length, then restore the order in time.
    longest = np.sort(long[np.argsort(-lengths, kind="stable")][:MAX_INTERVALS])
    total = int(lengths.sum())
    intervals = tuple(
        _interval(ranks, offset, int(spans[0][i]), int(spans[1][i])) for i in longest.tolist()
    )
    return AllIdle(intervals, total, total / max(_wall(ranks[0]), 1))


def _interval(ranks: Sequence[RankSummary], offset: Int64, begin: int, end: int) -> IdleTogether:
    doing: Counter[str] = Counter()
    for summary, ahead in zip(ranks, offset.tolist(), strict=True):
        place = int(np.searchsorted(summary.idle.start, begin + ahead, side="right")) - 1
        if place >= 0 and summary.idle.host[place]:
            doing[summary.idle.host[place]] += 1
    # Break ties by name, so that equal counts give the same answer in every run.
    host, alike = max(doing.items(), key=lambda d: (d[1], d[0]), default=("", 0))
    return IdleTogether(begin, end, ranks[0].work_steps.at(begin), host, alike)


def _wall(summary: RankSummary) -> int:
    steps = summary.steps
    if len(steps):
        return int(steps.end.max() - steps.start.min())
    return summary.time_on_device.window or summary.end_ns - summary.start_ns
