"""What the page draws of one rank, thinned to what a screen can show: critical path, launch queue, memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.traces.columns import TraceColumns
from analysis.traces.per_rank.critical_path import critical_path
from analysis.traces.per_rank.critical_path_breakdown import BOUNDS, bounds
from analysis.traces.per_rank.critical_path_events import DEFAULT_RULES, last_complete_step

STRIP_PIECES = 600


@dataclass(frozen=True)
class PathStrip:
    """The critical path over time: pieces (from, to, bound) in ms from its start, one after the other."""

    window: str
    pieces: tuple[tuple[float, float, str], ...]
    length_ms: float


@dataclass(frozen=True)
class DrawnCurves:
    """Lines over time: `x` in ms from the start of the trace, `series` of (label, values), and the values' unit."""

    x: tuple[float, ...]
    unit: str
    series: tuple[tuple[str, tuple[float | None, ...]], ...]


@dataclass(frozen=True)
class RankCharts:
    """The drawings of one rank; None where there is nothing to draw."""

    path: PathStrip | None = None
    queue: DrawnCurves | None = None
    memory: DrawnCurves | None = None


def rank_charts(trace: TraceColumns) -> RankCharts:
    """All drawings of a rank."""
    return RankCharts(path=path_strip(trace))


def path_strip(trace: TraceColumns) -> PathStrip | None:
    """The critical path of the last complete step, as `critical_path` in `--json`."""
    path = critical_path(trace, last_complete_step(trace))
    if not len(path.path):
        return None
    bound = bounds(trace, path, DEFAULT_RULES)
    starts = path.events.node_time[path.edges.source[path.path]]
    ends = path.events.node_time[path.edges.target[path.path]]
    begin, end = int(starts[0]), int(ends.max())
    if end <= begin:
        return None
    long = np.flatnonzero(ends > starts)
    marks = begin + (np.arange(STRIP_PIECES) + 0.5) * (end - begin) / STRIP_PIECES
    at = long[np.maximum(np.searchsorted(starts[long], marks, side="right") - 1, 0)]
    there = np.where((starts[at] <= marks) & (marks < ends[at]), bound[at], 0)
    cuts = np.flatnonzero(np.diff(there)) + 1
    firsts, lasts = np.concatenate(([0], cuts)), np.concatenate((cuts, [STRIP_PIECES]))
    unit = (end - begin) / STRIP_PIECES / 1e6
    pieces = tuple(
        (round(a * unit, 4), round(b * unit, 4), BOUNDS[int(there[a])])
        for a, b in zip(firsts.tolist(), lasts.tolist(), strict=True)
    )
    return PathStrip(path.window.label, pieces, round((end - begin) / 1e6, 3))
