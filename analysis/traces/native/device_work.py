"""Loops over a trace's rows that numpy would take several passes and copies for; each None without
the library."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.native.library import library, pointer

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
