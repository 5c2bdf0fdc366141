"""How much launched work waits on each stream: +1 when the host launches, -1 when the work begins.

The driver's queue holds about 1,024 entries; the host that fills it stands still until the device
takes one. The rules are HTA's `get_queue_length_time_series`, `_summary` and
`get_time_spent_blocked_on_full_queue`, for every launching call: a graph is one entry on each
stream that it uses, from its launch until its first work there begins (with graphs HTA fails or
leaves them out).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import (
    DeviceStream,
    device_launches,
    device_rows,
    device_streams,
)
from faultline.analysis.traces.columns.distribution import KEY_SPACE, Distribution, distributions
from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
from faultline.analysis.traces.columns.row_table import FLOAT, INT, TEXT, Rows, RowTable, rounded
from faultline.analysis.traces.per_rank.launches import launches_without_work

FULL_QUEUE = 1024
"""Entries of CUDA's launch queue, as HTA's max_queue_length."""


@dataclass(frozen=True)
class LaunchQueue:
    """Changes of the queues' lengths, by stream, then by time; a length holds until the stream's
    next change."""

    time: Int64
    """ns since the epoch."""
    stream: Int64
    """Index into `streams`."""
    length: Int64
    row: Int64
    """The call or the work that changed it."""
    streams: tuple[DeviceStream, ...]
    early: int
    """Work that began before its launch, by clocks that disagree; it never waits."""
    work_without_launch: int
    """Work whose launch is not in the trace; not in the queues."""

    def __len__(self) -> int:
        return len(self.time)

    @property
    def until(self) -> Int64:
        """When each length ends; a stream's last change has no duration."""
        following = np.append(self.time[1:], self.time[-1:])
        return np.where(self._last, self.time, following)

    @property
    def _last(self) -> Bool:
        return np.append(
            self.stream[1:] != self.stream[:-1], np.ones(min(len(self), 1), dtype=np.bool_)
        )


@dataclass(frozen=True)
class QueueSummary:
    """One stream's queue."""

    stream: DeviceStream
    lengths: Distribution
    """Of the lengths after each change, as HTA summarizes them."""
    mean_length: float
    """Over time, from the first launch to the last begin of work."""


@dataclass(frozen=True)
class BlockedTime:
    """How long one stream's queue was full."""

    stream: DeviceStream
    blocked_ns: int
    percent: float
    """Of the trace's length, from the first event's start to the last one's."""


def queue_length(trace: TraceColumns) -> LaunchQueue:
    """The length of every stream's queue over time. O(n log n)."""
    work, call = device_rows(trace), device_launches(trace)
    index, streams = device_streams(trace)
    lost = int((call < 0).sum())
    if lost:
        indexes = np.flatnonzero(call >= 0)
        work, call, index = work[indexes], call[indexes], index[indexes]
    is_present = np.zeros(len(trace), dtype=np.bool_)
    is_present[call] = True
    # A call with several pieces of work is a graph: it is one entry per stream.
    if int(np.count_nonzero(is_present)) < len(call):
        first = np.sort(np.unique(call * len(streams) + index, return_index=True)[1])
        work, call, index = work[first], call[first], index[first]
    begin, launched = trace.ts.take(work), trace.ts.take(call)
    early = int((launched > begin).sum())
    # Clocks may disagree, but work cannot begin before its launch.
    launched = np.minimum(launched, begin)
    # Launches stand first, so that at one time no length falls below 0.
    time = np.concatenate((launched, begin))
    stream = np.concatenate((index, index))
    order = _by_stream_and_time(stream, time, len(streams))
    # The first half of the entries are launches, the second half begins of work.
    length = np.cumsum(np.where(order < len(work), 1, -1))
    row = np.concatenate((call, work))
    return LaunchQueue(
        time.take(order), stream.take(order), length, row.take(order), streams, early, lost
    )


def queue_summary(queue: LaunchQueue) -> tuple[QueueSummary, ...]:
    """Statistics of the queue of every stream that has one, in order of the streams."""
    spread = distributions(queue.length, queue.stream, len(queue.streams))
    spent = queue.until - queue.time
    weight, span = np.zeros(len(queue.streams)), np.zeros(len(queue.streams), dtype=np.int64)
    np.add.at(weight, queue.stream, queue.length.astype(np.float64) * spent)
    np.add.at(span, queue.stream, spent)
    return tuple(
        QueueSummary(stream, spread.at(i), float(weight[i] / max(int(span[i]), 1)))
        for i, stream in enumerate(queue.streams)
        if spread.count[i]
    )


def time_blocked(
    trace: TraceColumns, queue: LaunchQueue, limit: int = FULL_QUEUE
) -> tuple[BlockedTime, ...]:
    """How long each stream's queue held at least `limit` entries; only the streams where it did."""
    full = queue.length >= limit
    if not full.any():
        return ()
    blocked = np.zeros(len(queue.streams), dtype=np.int64)
    np.add.at(blocked, queue.stream[full], (queue.until - queue.time)[full])
    whole = int(trace.ts.max()) - int(trace.ts.min())
    reached = np.unique(queue.stream[full]).tolist()
    return tuple(
        BlockedTime(
            queue.streams[i], int(blocked[i]), 100.0 * int(blocked[i]) / whole if whole else 0.0
        )
        for i in reached
    )


TABLE = RowTable(
    TEXT("device"),
    INT("stream", "changes"),
    rounded(2, "mean_length"),
    FLOAT("p50_length", "p99_length"),
    INT("max_length", "blocked_ns"),
    rounded(2, "blocked_percent"),
    INT("launches_without_work", "work_without_launch", "work_before_launch"),
)


def rows(trace: TraceColumns) -> Rows:
    """One row per stream; what could not be matched is in the first."""
    queue = queue_length(trace)
    blocked = {blocked_time.stream: blocked_time for blocked_time in time_blocked(trace, queue)}
    unmatched = TABLE.row(
        stream="all",
        launches_without_work=launches_without_work(trace),
        work_without_launch=queue.work_without_launch,
        work_before_launch=queue.early,
    )
    table = [unmatched]
    for summary in queue_summary(queue):
        full, lengths = blocked.get(summary.stream), summary.lengths
        table.append(
            TABLE.row(
                device=summary.stream.device,
                stream=summary.stream.stream,
                changes=lengths.count,
                mean_length=summary.mean_length,
                p50_length=lengths.p50,
                p99_length=lengths.p99,
                max_length=lengths.max,
                blocked_ns=full.blocked_ns if full else 0,
                blocked_percent=full.percent if full else 0.0,
            )
        )
    return table


def _by_stream_and_time(stream: Int64, time: Int64, streams: int) -> Int64:
    """Of changes at one time those that stand first come first: launches."""
    if not len(time):
        return np.empty(0, dtype=np.int64)
    low = int(time.min())
    span = int(time.max()) - low + 1
    if span * streams < KEY_SPACE:
        return np.argsort(stream * span + (time - low), kind="stable")
    return np.lexsort((time, stream))
