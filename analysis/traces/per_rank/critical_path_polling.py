"""Gaps in which the host polls its device.

A host that waits by asking again and again (`while not event.query()`), or by a call that the
profiler does not record, looks like one that computes between its operators. Where the device works
through such a gap and the host goes on as soon as it is done, the gap is a wait for the device.
"""

from __future__ import annotations

import numpy as np

from faultline.analysis.traces.columns.disjoint_intervals import covered
from faultline.analysis.traces.columns.events import Bool, Int64
from faultline.analysis.traces.columns.intervals import union
from faultline.analysis.traces.per_rank.critical_path_events import Events

BUSY_SHARE = 0.9
"""Share of a gap in which the device works, from which the host is not what the path waits for (our
choice: work that the device has taken off the host's hands leaves the rest of the gap at most)."""


MIN_NS = 100_000
"""Shortest gap that is taken for polling (our choice: Python between two operators takes tens of
microseconds, and a kernel that happens to run then says nothing)."""


def polling_gaps(events: Events, gap_starts: Int64, gap_ends: Int64) -> tuple[Bool, Int64]:
    """Of gaps of the host, given by their first and last node: which of them are no time of the
    host's, and the node of the device's end that each waited for (-1 for none).

    A gap that the device works through is the device's time. It waited for the device where the
    last work in it ends, and nothing runs from then on until the gap's end. O(n log n).
    """
    waited = np.full(len(gap_starts), -1, dtype=np.int64)
    work = np.flatnonzero(events.on_device)
    if not len(work) or not len(gap_starts):
        return np.zeros(len(gap_starts), dtype=np.bool_), waited
    busy = union(events.start(work), events.end(work))
    if not len(busy[0]):
        # Work without a duration keeps the device busy at no time.
        return np.zeros(len(gap_starts), dtype=np.bool_), waited
    begin, end = events.node_time[gap_starts], events.node_time[gap_ends]
    length = end - begin
    polling = (length >= MIN_NS) & (covered(busy, begin, end) >= BUSY_SHARE * length)
    # The device's last busy interval that ends in the gap, if none begins or runs after it.
    place = np.searchsorted(busy[1], end, side="right") - 1
    last_end = busy[1][np.maximum(place, 0)]
    following = np.append(busy[0], np.iinfo(np.int64).max)[place + 1]
    drained = polling & (place >= 0) & (last_end > begin) & (following >= end)
    by_end = work[np.argsort(events.end_node[work])]
    ends = events.end(by_end)
    last = by_end[np.searchsorted(ends, last_end, side="right") - 1]
    waited[drained] = events.end_node[last[drained]]
    return polling, waited
