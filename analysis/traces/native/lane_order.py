"""Rows by lane and time."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.native.library import library, pointer

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]


def lane_order(rows: Int64, lane: Int32, lanes: int, starts: Int64, durations: Int64) -> Int64:
    """Some rows by lane, start, longest first, place in `rows`.

    `lane` (below `lanes`), `starts` and `durations` are columns of all rows. Where each lane is
    nearly in order, as profilers write it, nearly linear in the rows.
    """
    native = library()
    if native is None:
        return lane_order_in_python(rows, lane, starts, durations)
    rows = np.ascontiguousarray(rows, dtype=np.int64)
    lane = np.ascontiguousarray(lane, dtype=np.int32)
    starts = np.ascontiguousarray(starts, dtype=np.int64)
    durations = np.ascontiguousarray(durations, dtype=np.int64)
    count = np.zeros(lanes + 1, dtype=np.int64)
    order, spare = np.empty((2, len(rows)), dtype=np.int64)
    done = native.fl_lane_order(
        ctypes.c_int64(len(rows)),
        pointer(rows),
        pointer(lane),
        ctypes.c_int64(lanes),
        pointer(starts),
        pointer(durations),
        pointer(count),
        pointer(order),
        pointer(spare),
    )
    if done != len(rows):
        raise ValueError("a lane is out of range")
    return order


def lane_order_in_python(rows: Int64, lane: Int32, starts: Int64, durations: Int64) -> Int64:
    """The same without the compiled library."""
    by_time = np.lexsort((-durations[rows], starts[rows], lane[rows]))
    return np.asarray(rows[by_time], dtype=np.int64)
