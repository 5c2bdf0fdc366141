"""Algebra on disjoint intervals in order (as `intervals.union` gives them): int64 ns, half open."""

from __future__ import annotations

import numpy as np

from faultline.analysis.traces.columns.events import Int64
from faultline.analysis.traces.columns.intervals import union

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
