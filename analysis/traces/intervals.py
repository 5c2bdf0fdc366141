"""Arithmetic on sets of intervals: int64 starts and ends in ns, half open."""

from __future__ import annotations

import numpy as np

from analysis.traces.columns import Int64


def union(starts: Int64, ends: Int64) -> tuple[Int64, Int64]:
    """The same time as disjoint intervals in order. Empty and negative intervals vanish."""
    real = ends > starts
    starts, ends = starts[real], ends[real]
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    first = np.concatenate(([True], starts[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return starts[first], reach[last]


def total(starts: Int64, ends: Int64) -> int:
    """Length of the union, ns."""
    begin, end = union(starts, ends)
    return int((end - begin).sum())


def overlap(a: tuple[Int64, Int64], b: tuple[Int64, Int64]) -> int:
    """Time that lies in both sets, ns."""
    return total(*a) + total(*b) - total(np.concatenate((a[0], b[0])), np.concatenate((a[1], b[1])))


def clip(starts: Int64, ends: Int64, begin: int, end: int) -> tuple[Int64, Int64]:
    """The parts that lie in [begin, end)."""
    low, high = np.maximum(starts, begin), np.minimum(ends, end)
    real = high > low
    return low[real], high[real]
