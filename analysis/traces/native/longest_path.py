"""The longest path to every node of a directed graph without cycles."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.native.library import library, pointer

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
    lengths = {len(source), len(target), len(weight)}
    if order is not None:
        lengths.add(len(order))
    if len(lengths) > 1:
        raise ValueError("source, target, weight and order must have one length")
    source = np.ascontiguousarray(source, dtype=np.int64)
    target = np.ascontiguousarray(target, dtype=np.int64)
    weight = np.ascontiguousarray(weight, dtype=np.int64)
    if order is not None:
        order = np.ascontiguousarray(order, dtype=np.int64)
    native = library()
    if native is None:
        return longest_path_in_python(node_count, source, target, weight, order)
    distance = np.empty(node_count, dtype=np.int64)
    incoming = np.empty(node_count, dtype=np.int64)
    left = np.zeros(node_count, dtype=np.uint8)
    problem = native.fl_longest_path(
        ctypes.c_int64(node_count),
        ctypes.c_int64(len(source)),
        pointer(source),
        pointer(target),
        pointer(weight),
        None if order is None else pointer(order),
        pointer(distance),
        pointer(incoming),
        pointer(left),
    )
    if problem:
        raise ValueError(PROBLEMS[problem])
    return distance, incoming


def longest_path_in_python(
    node_count: int, source: Int64, target: Int64, weight: Int64, order: Int64 | None = None
) -> tuple[Int64, Int64]:
    """The same without the compiled library."""
    distance = [0] * node_count
    incoming = [-1] * node_count
    left = bytearray(node_count)
    # Lists of plain ints are several times faster to index one by one than numpy arrays.
    sources, targets, weights = source.tolist(), target.tolist(), weight.tolist()
    edges = range(len(sources)) if order is None else order.tolist()
    for edge in edges:
        if not 0 <= edge < len(sources):
            raise ValueError(PROBLEMS[-1])
        before, after = sources[edge], targets[edge]
        if not (0 <= before < node_count and 0 <= after < node_count):
            raise ValueError(PROBLEMS[-1])
        left[before] = 1
        # Once a path has gone on from a node, its distance must not change any more.
        if left[after]:
            raise ValueError(PROBLEMS[-2])
        reached = max(INT64_MIN, min(INT64_MAX, distance[before] + weights[edge]))
        is_first = reached == distance[after] and incoming[after] < 0
        if reached > distance[after] or is_first:
            distance[after] = reached
            incoming[after] = edge
    return np.asarray(distance, dtype=np.int64), np.asarray(incoming, dtype=np.int64)
