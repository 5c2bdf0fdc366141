"""Which interval of a lane encloses which: one walk over sorted rows with a stack."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.native.library import library, pointer

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]


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
