"""Loops over a trace's rows that numpy would take several passes and copies for; each None without
the library.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.native.lane import library, pointer

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Flags = NDArray[np.uint8]


WORK, CALL = 1, 2
"""What a category is: work on the accelerator, or the host's calls that launch it."""


@dataclass(frozen=True)
class DeviceScan:
    """What one pass over all rows tells."""

    rows: Int64
    """Of the work, in file order."""
    in_order: bool
    """Whether that is the order of their starts."""
    lowest: int
    highest: int
    """Correlations of the calls; the lowest is above the highest where there are none."""


def scan_device(
    category: Int32, kind: Flags, start: Int64, correlation: Int64
) -> DeviceScan | None:
    """Rows of work, and the range of the calls' correlations. `kind`: WORK, CALL or 0 of each
    category."""
    native = library()
    if native is None:
        return None
    category, start = (
        np.ascontiguousarray(category, dtype=np.int32),
        np.ascontiguousarray(start, dtype=np.int64),
    )
    correlation = np.ascontiguousarray(correlation, dtype=np.int64)
    # Room for all rows: how many are work is known only afterwards.
    row_buffer, summary = np.empty(len(category), dtype=np.int64), np.zeros(3, dtype=np.int64)
    columns = [pointer(c) for c in (start, correlation, row_buffer, summary)]
    count = native.fl_device_rows(
        _n(category), pointer(category), _n(kind), pointer(kind), *columns
    )
    # Copy: a slice would keep the buffer for all rows alive.
    return DeviceScan(row_buffer[:count].copy(), bool(summary[0]), int(summary[1]), int(summary[2]))


def linked_calls(
    category: Int32, kind: Flags, correlation: Int64, queries: Int64, lowest: int, highest: int
) -> Int64 | None:
    """For each asked row the last call with its correlation, or -1; correlations lie in [lowest,
    highest]."""
    native = library()
    # The library's table holds rows as int32.
    if native is None or len(category) >= 2**31:
        return None
    size = max(highest - lowest + 1, 0)
    category, correlation = np.ascontiguousarray(category), np.ascontiguousarray(correlation)
    table, queries = np.empty(size, dtype=np.int32), np.ascontiguousarray(queries, dtype=np.int64)
    launch = np.empty(len(queries), dtype=np.int64)
    native.fl_launches(
        _n(category), pointer(category), _n(kind), pointer(kind), pointer(correlation),
        ctypes.c_int64(lowest),
        ctypes.c_int64(size), pointer(table), _n(queries), pointer(queries), pointer(launch),
    )  # fmt: skip
    return launch


def streams_of_lanes(
    rows: Int64, lane: Int32, stream: Int64, lanes: int
) -> tuple[NDArray[np.bool_], Int64] | None:
    """Which lanes the rows are on, and each one's stream; None where one lane has several."""
    native = library()
    if native is None:
        return None
    rows, lane, stream = (
        np.ascontiguousarray(rows),
        np.ascontiguousarray(lane),
        np.ascontiguousarray(stream),
    )
    in_use, lane_streams = np.zeros(lanes, dtype=np.uint8), np.full(lanes, -1, dtype=np.int64)
    columns = (
        pointer(rows),
        pointer(lane),
        pointer(stream),
        ctypes.c_int64(lanes),
        pointer(in_use),
        pointer(lane_streams),
    )
    return (
        (in_use.astype(np.bool_), lane_streams)
        if native.fl_lane_streams(_n(rows), *columns)
        else None
    )


def of_lane(rows: Int64, lane: Int32, table: Int64) -> Int64:
    """`table[lane[rows]]`."""
    native = library()
    if native is None:
        return table.take(lane.take(rows))
    rows, lane, table = (
        np.ascontiguousarray(rows),
        np.ascontiguousarray(lane),
        np.ascontiguousarray(table),
    )
    out = np.empty(len(rows), dtype=np.int64)
    if (
        native.fl_of_lane(
            _n(rows), pointer(rows), pointer(lane), _n(table), pointer(table), pointer(out)
        )
        < 0
    ):
        raise ValueError("a lane is out of range")
    return out


def order_by_key(keys: Int64, count: int) -> Int64 | None:
    """Stable order of entries by a key in [0, count). Raises ValueError for a key outside."""
    native = library()
    if native is None:
        return None
    keys = np.ascontiguousarray(keys, dtype=np.int64)
    counts, order = np.zeros(count + 1, dtype=np.int64), np.empty(len(keys), dtype=np.int64)
    if (
        native.fl_order_by_key(
            _n(keys), pointer(keys), ctypes.c_int64(count), pointer(counts), pointer(order)
        )
        < 0
    ):
        raise ValueError("a key is out of range")
    return order


def gaps_of_streams(
    order: Int64, stream: Int64, rows: Int64, start: Int64, duration: Int64
) -> tuple[Int64, Int64] | None:
    """Gaps between entries in `order` of (stream, start): the entry that ends each, and the latest
    end before it.

    `rows` are the entries' rows, whose times are `start` and `duration`.
    """
    native = library()
    if native is None:
        return None
    columns = [
        np.ascontiguousarray(c, dtype=np.int64) for c in (order, stream, rows, start, duration)
    ]
    place, begin = np.empty(len(order), dtype=np.int64), np.empty(len(order), dtype=np.int64)
    gaps = native.fl_stream_gaps(
        _n(order), *(pointer(c) for c in columns), pointer(place), pointer(begin)
    )
    return place[:gaps].copy(), begin[:gaps].copy()


def _n(column: NDArray[np.generic]) -> ctypes.c_int64:
    return ctypes.c_int64(len(column))


# Which interval of a lane encloses which: one walk over sorted rows with a stack.


def nesting_parents(lane: Int32, starts: Int64, ends: Int64) -> tuple[Int64, int]:
    """For rows sorted by (lane, start, -end): the index of the enclosing row or -1, and the number
    of overlaps.

    A row is enclosed by the innermost row of its lane that has begun and not ended where it starts;
    an end at the very ns of a start is before it. A row that starts inside another and ends after
    it is still its child, and counts as an overlap. Linear in the rows. Raises ValueError when
    lengths differ.
    """
    if not len(lane) == len(starts) == len(ends):
        raise ValueError("lane, starts and ends must have one length")
    lane = np.ascontiguousarray(lane, dtype=np.int32)
    starts = np.ascontiguousarray(starts, dtype=np.int64)
    ends = np.ascontiguousarray(ends, dtype=np.int64)
    native = library()
    if native is None:
        return nesting_in_python(lane, starts, ends)
    parents = np.empty(len(lane), dtype=np.int64)
    stack = np.empty(len(lane), dtype=np.int64)
    overlaps = native.fl_nesting(
        ctypes.c_int64(len(lane)),
        pointer(lane),
        pointer(starts),
        pointer(ends),
        pointer(parents),
        pointer(stack),
    )
    return parents, int(overlaps)


def nesting_in_python(lane: Int32, starts: Int64, ends: Int64) -> tuple[Int64, int]:
    """The same without the compiled library."""
    parents = np.full(len(lane), -1, dtype=np.int64)
    # (row, end) of the rows that enclose the current one, the innermost last.
    stack: list[tuple[int, int]] = []
    overlaps = 0
    lane_before = None
    rows = zip(lane.tolist(), starts.tolist(), ends.tolist(), strict=True)
    for row, (here, start, end) in enumerate(rows):
        if here != lane_before:
            stack.clear()
            lane_before = here
        while stack and stack[-1][1] <= start:
            stack.pop()
        if stack:
            parent, parent_end = stack[-1]
            parents[row] = parent
            if end > parent_end:
                overlaps += 1
        stack.append((row, end))
    return parents, overlaps


# The longest path to every node of a directed graph without cycles.

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
