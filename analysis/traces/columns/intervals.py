"""Arithmetic on sets of intervals: int64 starts and ends in ns, half open."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.events import Int64


def union(starts: Int64, ends: Int64) -> tuple[Int64, Int64]:
    """The same time as disjoint intervals in order. Empty and negative intervals vanish."""
    real = ends > starts
    starts, ends = starts[real], ends[real]
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    # Strictly greater: intervals that touch become one.
    first = np.concatenate(([True], starts[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return starts[first], reach[last]


def total(starts: Int64, ends: Int64) -> int:
    """Length of the union of any intervals, ns; of disjoint ones `spans.length` is."""
    begin, end = union(starts, ends)
    return int((end - begin).sum())


def clip(starts: Int64, ends: Int64, begin: int, end: int) -> tuple[Int64, Int64]:
    """The parts that lie in [begin, end)."""
    low, high = np.maximum(starts, begin), np.minimum(ends, end)
    real = high > low
    return low[real], high[real]


def running_end(ends: Int64, group: Int64) -> Int64:
    """The latest end so far within each group; rows of a group stand together."""
    if not len(ends):
        return ends
    low, high = int(ends.min()), int(ends.max())
    first = np.concatenate(([True], group[1:] != group[:-1]))
    number = np.cumsum(first) - 1
    span = high - low + 1
    # Shift each group past the one before: one running maximum then serves them all,
    # as long as the shifted times fit in 62 bits.
    if span * int(number[-1] + 1) < 1 << 62:
        number *= span
        number -= low
        reach: Int64 = ends + number
        np.maximum.accumulate(reach, out=reach)
        reach -= number
        return reach
    values, rank = np.unique(ends, return_inverse=True)
    place = np.maximum.accumulate(rank + number * len(values)) - number * len(values)
    return np.asarray(values[place], dtype=np.int64)


def self_times(starts: Int64, ends: Int64, lanes: NDArray[np.integer]) -> Int64:
    """Time of each interval in which no later-started interval of its lane is open, ns. O(n log n).

    Among proper call stacks this is a call's time less its children's.
    """
    none = np.empty(0, dtype=np.int64)
    time, owner = _sweep(starts, ends, lanes, none, none)[:2]
    spent = np.zeros(len(starts), dtype=np.int64)
    inside = np.flatnonzero(owner >= 0)
    np.add.at(spent, owner[inside], time[inside + 1] - time[inside])
    return spent


def innermost_at(
    starts: Int64,
    ends: Int64,
    lanes: NDArray[np.integer],
    times: Int64,
    time_lanes: NDArray[np.integer],
) -> Int64:
    """For each moment on a lane the index of the last-started interval open there; -1 for none. O(n
    log n)."""
    innermost = np.full(len(times), -1, dtype=np.int64)
    _, owner, query, place = _sweep(starts, ends, lanes, times, time_lanes)
    innermost[query] = owner[place]
    return innermost


def _sweep(
    starts: Int64,
    ends: Int64,
    lanes: NDArray[np.integer],
    times: Int64,
    time_lanes: NDArray[np.integer],
) -> tuple[Int64, Int64, Int64, Int64]:
    """Marks by (lane, time): their times and the innermost interval from each on; then the
    questions, and the mark of each. At one moment intervals close first, then others open (the
    longer first), and questions come last.
    """
    real = np.flatnonzero(ends > starts)
    real = real[np.lexsort((-ends[real], starts[real]))]
    time = np.concatenate((ends[real], starts[real], times))
    lane = np.concatenate((lanes[real], lanes[real], time_lanes))
    change = np.repeat(np.asarray([-1, 1, 0]), (len(real), len(real), len(times)))
    order = np.lexsort((time, lane))
    what = np.concatenate((real, real, np.arange(len(times))))[order]
    time, change = time[order], change[order]
    owner = _owners(what, change, np.cumsum(change), ends, time)
    indexes = np.flatnonzero(change == 0)
    return time, owner, what[indexes], indexes


def _owners(what: Int64, change: Int64, depth: Int64, ends: Int64, time: Int64) -> Int64:
    opens, closes = np.flatnonzero(change > 0), np.flatnonzero(change < 0)
    opened = opens[np.argsort(depth[opens], kind="stable")]
    closed = closes[np.argsort(depth[closes], kind="stable")]
    # Proper nesting closes at each depth what opened there; anything else needs a real stack.
    if not np.array_equal(ends[what[opened]], time[closed]):
        return _owners_of_crossing(what, change)
    by_depth = np.argsort(depth, kind="stable")
    last_open = np.maximum.accumulate(np.where(change[by_depth] > 0, np.arange(len(depth)), 0))
    owner = np.empty(len(depth), dtype=np.int64)
    owner[by_depth] = what[by_depth[last_open]] if len(depth) else 0
    return np.where(depth > 0, owner, -1)


def _owners_of_crossing(what: Int64, change: Int64) -> Int64:
    """The same where intervals of a lane cross; one pass in Python."""
    owner = np.full(len(what), -1, dtype=np.int64)
    closed: set[int] = set()
    stack: list[int] = []
    for mark, (interval, step) in enumerate(zip(what.tolist(), change.tolist(), strict=True)):
        if step > 0:
            stack.append(interval)
        elif step < 0:
            closed.add(interval)
        while stack and stack[-1] in closed:
            stack.pop()
        if stack:
            owner[mark] = stack[-1]
    return owner


# Algebra on disjoint intervals in order (as `intervals.union` gives them): int64 ns, half open.

Spans = tuple[Int64, Int64]
"""Starts and ends."""


def nothing_in() -> Spans:
    """No time at all."""
    return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)


def union_of(*sets: Spans) -> Spans:
    """The time that lies in any of the sets."""
    return (
        union(np.concatenate([s[0] for s in sets]), np.concatenate([s[1] for s in sets]))
        if sets
        else nothing_in()
    )


def intersection(a: Spans, b: Spans) -> Spans:
    """The time that lies in both; both must be disjoint and in order."""
    return _pieces(a, b, inside=True)


def difference(a: Spans, b: Spans) -> Spans:
    """The time of `a` that does not lie in `b`; both must be disjoint and in order."""
    return _pieces(a, b, inside=False)


def _pieces(a: Spans, b: Spans, *, inside: bool) -> Spans:
    if not len(a[0]):
        return a
    marks = np.concatenate((*a, *b))
    # With weights 1 and 2 each sum is unambiguous: 3 is inside both, 1 only inside `a`.
    steps = np.repeat(
        np.asarray([1, -1, 2, -2], dtype=np.int8), [len(a[0]), len(a[0]), len(b[0]), len(b[0])]
    )
    order = np.argsort(marks, kind="stable")
    marks, state = marks[order], np.cumsum(steps[order])
    keep = np.flatnonzero(state[:-1] == (3 if inside else 1))
    return union(marks[keep], marks[keep + 1])


def length(spans: Spans) -> int:
    """ns of disjoint intervals."""
    return int((spans[1] - spans[0]).sum())


def covered(spans: Spans, starts: Int64, ends: Int64) -> Int64:
    """How much of each [start, end) is in the disjoint `spans`, ns."""
    return until(spans, np.maximum(ends, starts)) - until(spans, starts)


def until(spans: Spans, moments: Int64) -> Int64:
    """How much of the disjoint `spans` lies before each moment, ns."""
    before = np.concatenate(([0], np.cumsum(spans[1] - spans[0])))
    begun = np.searchsorted(spans[0], moments, side="right")
    if not len(spans[0]):
        return np.zeros(len(moments), dtype=np.int64)
    last = np.maximum(begun - 1, 0)
    over = np.where(begun > 0, np.maximum(spans[1][last] - moments, 0), 0)
    return np.asarray(before[begun] - over, dtype=np.int64)


def coarsened(spans: Spans, most: int) -> tuple[Spans, int]:
    """At most this many intervals, the smallest gaps closed; and how many ns were added by that."""
    count = len(spans[0])
    if count <= most:
        return spans, 0
    gaps = spans[0][1:] - spans[1][:-1]
    # argpartition finds the widest gaps without a full sort; sort puts them back in time.
    open_gaps = (
        np.sort(np.argpartition(gaps, count - most)[count - most :])
        if most > 1
        else np.empty(0, dtype=np.int64)
    )
    closed = int(gaps.sum() - gaps[open_gaps].sum())
    starts = np.concatenate((spans[0][:1], spans[0][open_gaps + 1]))
    ends = np.concatenate((spans[1][open_gaps], spans[1][-1:]))
    return (starts, ends), closed
