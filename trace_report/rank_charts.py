"""What the page draws of one rank, thinned to what a screen can show: critical path, launch queue,
memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.events import Int64, TraceColumns
from faultline.analysis.traces.per_rank.critical_path import critical_path
from faultline.analysis.traces.per_rank.critical_path_breakdown import BOUNDS, bounds
from faultline.analysis.traces.per_rank.critical_path_events import (
    DEFAULT_RULES,
    last_complete_step,
)
from faultline.analysis.traces.per_rank.memory import memory_timelines
from faultline.analysis.traces.perfetto.augmented_counters import queue_lengths

STRIP_PIECES = 600
POINTS = 500
MAX_LINES = 6


@dataclass(frozen=True)
class PathStrip:
    """The critical path over time: pieces (from, to, bound) in ms from its start, one after the
    other."""

    window: str
    pieces: tuple[tuple[float, float, str], ...]
    length_ms: float


@dataclass(frozen=True)
class DrawnCurves:
    """Lines over time: `x` in ms from the start of the trace, `series` of (label, values), and the
    values' unit."""

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
    return RankCharts(
        path=path_strip(trace), queue=queue_curves(trace), memory=memory_curves(trace)
    )


def queue_curves(trace: TraceColumns) -> DrawnCurves | None:
    """Launches whose work has not begun, of the streams with the longest queues: the most in each
    part of the time."""
    tracks = sorted(queue_lengths(trace), key=lambda track: -float(track.value.max(initial=0)))[
        :MAX_LINES
    ]
    return _drawn(
        [(track.name.removeprefix("Queue length, "), track.ts, track.value) for track in tracks],
        trace,
        "",
    )


def memory_curves(trace: TraceColumns) -> DrawnCurves | None:
    """Bytes allocated on each device, and what its allocator holds: the highest in each part of the
    time."""
    lines = []
    for timeline in memory_timelines(trace)[: MAX_LINES // 2]:
        lines.append((f"{timeline.name} allocated", timeline.ts, timeline.allocated))
        if (timeline.reserved >= 0).any():
            lines.append(
                (f"{timeline.name} reserved", timeline.ts, np.maximum(timeline.reserved, 0))
            )
    return _drawn(lines, trace, "B")


def _drawn(
    lines: Sequence[tuple[str, Int64, NDArray[np.number[Any]]]], trace: TraceColumns, unit: str
) -> DrawnCurves | None:
    """The lines on one grid of POINTS moments; each point is the highest value since the one
    before."""
    lines = [line for line in lines if len(line[1])]
    if not lines:
        return None
    begin, end = min(int(ts[0]) for _, ts, _ in lines), max(int(ts[-1]) for _, ts, _ in lines)
    count = POINTS if end > begin else 1
    grid = np.linspace(begin, end, count)
    series = tuple((label, _highest(ts, values, grid)) for label, ts, values in lines)
    zero = int(trace.ts.min()) if len(trace) else begin
    return DrawnCurves(tuple(((grid - zero) / 1e6).round(4).tolist()), unit, series)


def _highest(
    ts: Int64, values: NDArray[np.number[Any]], grid: NDArray[np.float64]
) -> tuple[float | None, ...]:
    last = np.searchsorted(ts, grid, side="right") - 1
    # reduceat refuses a place behind the last one.
    first = np.concatenate(([0], last[:-1] + 1)).clip(0, len(ts) - 1)
    has_value = last >= 0
    last_values = values[np.maximum(last, 0)].astype(np.float64)
    tops = np.maximum.reduceat(values, first).astype(np.float64)
    highest = np.where(first <= last, np.maximum(tops, last_values), last_values)
    return tuple(
        v if k else None for v, k in zip(highest.tolist(), has_value.tolist(), strict=True)
    )


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
    # Sample at the middle of each piece.
    marks = begin + (np.arange(STRIP_PIECES) + 0.5) * (end - begin) / STRIP_PIECES
    at = long[np.maximum(np.searchsorted(starts[long], marks, side="right") - 1, 0)]
    # Bound 0 has no name: there the path takes no time.
    there = np.where((starts[at] <= marks) & (marks < ends[at]), bound[at], 0)
    cuts = np.flatnonzero(np.diff(there)) + 1
    firsts, lasts = np.concatenate(([0], cuts)), np.concatenate((cuts, [STRIP_PIECES]))
    unit = (end - begin) / STRIP_PIECES / 1e6
    pieces = tuple(
        (round(a * unit, 4), round(b * unit, 4), BOUNDS[int(there[a])])
        for a, b in zip(firsts.tolist(), lasts.tolist(), strict=True)
    )
    return PathStrip(path.window.label, pieces, round((end - begin) / 1e6, 3))
