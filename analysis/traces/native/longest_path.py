"""The longest path to every node of a directed graph without cycles."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from analysis.traces.native.library import library, pointer

Int64 = NDArray[np.int64]
INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
PROBLEMS = {
    -1: "an edge names no node",
    -2: "the edges are not in topological order of their sources",
}


def longest_path(
    node_count: int, source: Int64, target: Int64, weight: Int64, order: Int64 | None = None
) -> tuple[Int64, Int64]:
    """(distance of each node, index of the edge its longest path comes in by or -1).

    `order` lists the edges by the topological position of their source; None where they stand so
    already. A path may start at any node, with 0; of edges that reach as far the first in order is
    kept, and an edge that would leave the distance below 0 is not followed. Linear in nodes and
    edges. Raises ValueError for unequal lengths, an edge of an unknown node, or edges out of order
    (a cycle cannot be ordered).
    """
    count = len(source)
    if not count == len(target) == len(weight) == (count if order is None else len(order)):
        raise ValueError("source, target, weight and order must have one length")
    edges = [np.ascontiguousarray(a, dtype=np.int64) for a in (source, target, weight)]
    in_order = None if order is None else np.ascontiguousarray(order, dtype=np.int64)
    native = library()
    if native is None:
        return longest_path_in_python(node_count, edges[0], edges[1], edges[2], in_order)
    distance, best = np.empty(node_count, dtype=np.int64), np.empty(node_count, dtype=np.int64)
    left = np.zeros(node_count, dtype=np.uint8)
    problem = native.fl_longest_path(
        ctypes.c_int64(node_count),
        ctypes.c_int64(count),
        *[pointer(a) for a in edges],
        None if in_order is None else pointer(in_order),
        *[pointer(a) for a in (distance, best, left)],
    )
    if problem:
        raise ValueError(PROBLEMS[problem])
    return distance, best


def longest_path_in_python(
    node_count: int, source: Int64, target: Int64, weight: Int64, order: Int64 | None = None
) -> tuple[Int64, Int64]:
    """The same without the compiled library."""
    count = len(source)
    distance, best, left = [0] * node_count, [-1] * node_count, bytearray(node_count)
    sources, targets, weights = source.tolist(), target.tolist(), weight.tolist()
    for edge in range(count) if order is None else order.tolist():
        if (
            not 0 <= edge < count
            or not 0 <= sources[edge] < node_count
            or not 0 <= targets[edge] < node_count
        ):
            raise ValueError(PROBLEMS[-1])
        before, after = sources[edge], targets[edge]
        left[before] = 1
        if left[after]:
            raise ValueError(PROBLEMS[-2])
        reached = max(INT64_MIN, min(INT64_MAX, distance[before] + weights[edge]))
        if reached > distance[after] or (reached == distance[after] and best[after] < 0):
            distance[after], best[after] = reached, edge
    return np.asarray(distance, dtype=np.int64), np.asarray(best, dtype=np.int64)
