"""Why each stream of the accelerator is idle: the host was late, one kernel waits for the next, or
something else.

The rules are HTA's `get_idle_time_breakdown`, with two corrections: a gap begins where everything
before it on the stream has ended (HTA: where the previous kernel has), and what overlaps is no gap
(HTA adds negative ones).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import (
    DeviceStream,
    by_stream,
    device_launches,
    device_rows,
    device_streams,
)
from faultline.analysis.traces.columns.distribution import Distribution, distributions
from faultline.analysis.traces.columns.events import Int32, Int64, TraceColumns
from faultline.analysis.traces.columns.intervals import running_end
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable, rounded
from faultline.analysis.traces.native.device_work import gaps_of_streams

CONSECUTIVE_KERNEL_DELAY_NS = 30_000
"""Gaps below this between kernels that were launched in time are the device's own delay: HTA's 30,
whose documentation says ns, but which it compares with microseconds."""
HOST_WAIT, KERNEL_WAIT, OTHER = "host_wait", "kernel_wait", "other"
CATEGORIES = (HOST_WAIT, KERNEL_WAIT, OTHER)
"""Launched only after the stream had run dry; launched in time, and begun at once; launched in
time, but begun late (it waited for another stream, an event, or the device)."""


@dataclass(frozen=True)
class Gaps:
    """Times in which a stream is idle between two pieces of work; by stream, then by time."""

    begin: Int64
    end: Int64
    stream: Int64
    """Index into `streams`."""
    category: Int32
    """Index into `CATEGORIES`."""
    next_row: Int64
    """Row of the trace: the work that ends the gap."""
    launch_row: Int64
    """Row of the call that launched it; -1 where unknown."""
    streams: tuple[DeviceStream, ...]

    def __len__(self) -> int:
        return len(self.begin)


@dataclass(frozen=True)
class StreamIdle:
    """One stream's idle time between its first and its last work."""

    stream: DeviceStream
    by_category: Mapping[str, int]
    """ns; only the categories that occur."""

    @property
    def idle_ns(self) -> int:
        """Of all categories."""
        return sum(self.by_category.values())

    def percent(self, category: str) -> float:
        """Share of the stream's idle time."""
        return 100.0 * self.by_category.get(category, 0) / self.idle_ns if self.idle_ns else 0.0


@dataclass(frozen=True)
class GapTimes:
    """The gaps of one stream and category."""

    stream: DeviceStream
    category: str
    times: Distribution
    """Lengths, ns."""


def idle_breakdown(
    trace: TraceColumns,
    streams: Collection[int] | None = None,
    consecutive_kernel_delay_ns: int = CONSECUTIVE_KERNEL_DELAY_NS,
) -> tuple[StreamIdle, ...]:
    """The idle time of each stream (None: of all) by cause, streams in order of device and number.
    O(n log n)."""
    gaps = stream_gaps(trace, streams, consecutive_kernel_delay_ns)
    sums = np.zeros(len(gaps.streams) * len(CATEGORIES), dtype=np.int64)
    np.add.at(sums, gaps.stream * len(CATEGORIES) + gaps.category, gaps.end - gaps.begin)
    return tuple(
        StreamIdle(
            stream, {category: ns for category, ns in zip(CATEGORIES, parts, strict=True) if ns}
        )
        for stream, parts in zip(
            gaps.streams, sums.reshape(-1, len(CATEGORIES)).tolist(), strict=True
        )
        if streams is None or stream.stream in streams
    )


def gap_statistics(gaps: Gaps) -> tuple[GapTimes, ...]:
    """How long the gaps are, for each stream and category that occurs."""
    spread = distributions(
        gaps.end - gaps.begin,
        gaps.stream * len(CATEGORIES) + gaps.category,
        len(gaps.streams) * len(CATEGORIES),
    )
    gap_times = []
    for key in np.flatnonzero(spread.count).tolist():
        stream, category = divmod(key, len(CATEGORIES))
        gap_times.append(GapTimes(gaps.streams[stream], CATEGORIES[category], spread.at(key)))
    return tuple(gap_times)


def stream_gaps(
    trace: TraceColumns,
    streams: Collection[int] | None = None,
    consecutive_kernel_delay_ns: int = CONSECUTIVE_KERNEL_DELAY_NS,
) -> Gaps:
    """Every gap of every stream (None: of all). What begins before all before it has ended leaves
    none."""
    index, all_streams = device_streams(trace)
    order = by_stream(index, len(all_streams))
    if streams is not None:
        stream_mask = np.asarray([stream.stream in streams for stream in all_streams] + [False])
        order = order[stream_mask[index[order]]]
    rows = device_rows(trace)
    # Without the compiled library the first gives None.
    place, begin = gaps_of_streams(order, index, rows, trace.ts, trace.dur) or _gaps(
        order, index, rows, trace
    )
    next_row, launch = rows.take(place), device_launches(trace).take(place)
    end = trace.ts.take(next_row)
    category = gap_category(trace, begin, end, launch, consecutive_kernel_delay_ns)
    return Gaps(begin, end, index.take(place), category, next_row, launch, all_streams)


def _gaps(order: Int64, index: Int64, rows: Int64, trace: TraceColumns) -> tuple[Int64, Int64]:
    """`gaps_of_streams` without the compiled library."""
    ordered, stream_index = rows.take(order), index.take(order)
    starts = trace.ts.take(ordered)
    reach = running_end(starts + trace.dur.take(ordered), stream_index)
    after = np.flatnonzero((stream_index[1:] == stream_index[:-1]) & (starts[1:] > reach[:-1]))
    return order.take(after + 1), reach.take(after)


def gap_category(
    trace: TraceColumns, begin: Int64, end: Int64, launch: Int64, delay_ns: int
) -> Int32:
    """Index into `CATEGORIES` of each gap; `launch` is the row of the call that launched what ends
    it, or -1."""
    # A launch of -1 reads the last row; the mask below leaves it out.
    late = trace.ts[launch] > begin if len(launch) else np.zeros(0, dtype=np.bool_)
    # Indices into CATEGORIES: kernel_wait and other.
    short = np.where(end - begin < delay_ns, 1, 2)
    return np.where(late & (launch >= 0), 0, short).astype(np.int32)


TABLE = RowTable(
    TEXT("device"),
    INT("stream"),
    TEXT("category"),
    INT("idle_ns"),
    rounded(2, "idle_percent"),
    INT("gaps"),
    rounded(1, "mean_ns", "p50_ns"),
    INT("max_ns"),
)


def rows(trace: TraceColumns) -> Rows:
    """One row per stream and category."""
    idle = {stream.stream: stream for stream in idle_breakdown(trace)}
    rows = []
    for gap in gap_statistics(stream_gaps(trace)):
        times, percent = gap.times, idle[gap.stream].percent(gap.category)
        spread = (times.count, times.mean, times.p50, times.max)
        place = (gap.stream.device, gap.stream.stream, gap.category)
        rows.append((*place, times.total, percent, *spread))
    return TABLE.of(rows)
