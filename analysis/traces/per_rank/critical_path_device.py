"""Edges of the work on the accelerator: streams, launches, and waits between them.

Work on one stream runs in order. A kernel that was launched when its stream was idle waits for its
launch; another one waits for the kernel before it, unless it waited longer for work on another
stream. What waits for what across streams and on the host is written in synchronization events
(category cuda_sync, where the profiler was asked for them); without those it is inferred from the
times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
from faultline.analysis.traces.per_rank.critical_path_events import (
    EdgeKind,
    EdgeList,
    Events,
    Rules,
    entry_after,
    entry_before,
)

KERNEL_GAP_NS = 1_500_000
"""Longest delay between kernels of one stream, or from a launch to its kernel while other streams
work; beyond it something unknown was waited for. HTA: under 10 us on a compute stream, about 1 ms
on a communication stream."""
WAKE_NS = 10_000
"""Work that waited for another stream starts within this time after that work's end (typical: 2-5
us)."""
NEVER = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class Kernels:
    """The window's work on the device, stream by stream, each in order of start. One row per
    kernel."""

    event: Int64
    stream: Int64
    """Number of the (device, stream) pair."""
    start: Int64
    end: Int64
    launched: Int64
    """Start of the call that launched it, ns; NEVER where the trace has none."""
    before: Int64
    """The kernel (row here) of the same stream that ended last of those that started earlier; -1
    where there is none or it was launched before the window."""
    ended: Int64
    """When that one ended, in the window or before it, ns; NEVER for none."""
    device_ended: Int64
    """Latest end of all work on the same device, whatever the stream, that started earlier; NEVER
    for none."""

    def __len__(self) -> int:
        return len(self.event)


def stream_keys(trace: TraceColumns) -> Int64:
    """A number for each (device, stream) pair, per row; streams of two devices may have one
    number."""
    processes: dict[str, int] = {}
    by_lane = [processes.setdefault(pid, len(processes)) for pid, _ in trace.lanes]
    process = (
        np.asarray(by_lane, dtype=np.int64)[trace.lane] if by_lane else np.zeros(0, dtype=np.int64)
    )
    # A stream number has 32 bits; + 1 makes room for -1.
    return np.asarray(process * (1 << 33) + np.minimum(trace.stream, (1 << 32) - 1) + 1)


def kernels_of(trace: TraceColumns, events: Events, keys: Int64, launch: Int64) -> Kernels:
    """The kernels, copies and fills among the events. `launch` is the launching row of every row of
    the trace."""
    row = np.flatnonzero(trace.on_device)
    place = np.full(len(trace) + 1, -1, dtype=np.int64)
    place[events.row] = events.start_node
    row = row[np.lexsort((place[row], trace.ts[row], keys[row]))]
    last = ended_last(keys[row], trace.end[row])
    ended = np.where(last >= 0, trace.end[row[last]], NEVER)
    device_ended = _device_ended(trace, keys, row)
    inside = np.flatnonzero(place[row] >= 0)
    number = np.full(len(row) + 1, -1, dtype=np.int64)
    number[inside] = np.arange(len(inside))
    mine = row[inside]
    call = launch[mine]
    launched = np.where(call >= 0, trace.ts[call], NEVER)
    event = events.of_rows(len(trace))[mine]
    before = number[last[inside]]
    return Kernels(
        event,
        keys[mine],
        trace.ts[mine],
        trace.end[mine],
        launched,
        before,
        ended[inside],
        device_ended[inside],
    )


def _device_ended(trace: TraceColumns, keys: Int64, row: Int64) -> Int64:
    # Shifting off the stream leaves the device.
    device = keys[row] >> 33
    order = np.lexsort((trace.ts[row], device))
    last = ended_last(device[order], trace.end[row[order]])
    end_times = np.empty(len(row), dtype=np.int64)
    end_times[order] = np.where(last >= 0, trace.end[row[order][last]], NEVER)
    return end_times


def ended_last(stream: Int64, end: Int64) -> Int64:
    """For each row the earlier row of its stream with the latest end; rows come stream by
    stream."""
    count = len(stream)
    if not count:
        return np.empty(0, dtype=np.int64)
    by_end = np.lexsort((np.arange(count), end, stream))
    rank = np.empty(count, dtype=np.int64)
    rank[by_end] = np.arange(count)
    # Ranks grow from stream to stream, so one running maximum serves them all.
    latest = by_end[np.maximum.accumulate(rank)]
    follows = np.concatenate(([False], stream[1:] == stream[:-1]))
    return np.asarray(np.where(follows, np.concatenate(([-1], latest[:-1])), -1))


def stream_edges(
    trace: TraceColumns,
    events: Events,
    kernels: Kernels,
    waits: tuple[Int64, Int64],
    rules: Rules,
    edge_list: EdgeList,
) -> None:
    """Add the edges inside and between kernels. `waits` are pairs (source, target) of kernels
    across streams."""
    if not len(kernels):
        return
    first, last = events.start_node[kernels.event], events.end_node[kernels.event]
    row = events.row[kernels.event]
    edge_list.add_time(EdgeKind.OPERATOR, first, last, row)
    source, target = waits
    late = kernels.end[source] > kernels.start[target]
    edge_list.add(EdgeKind.SYNC_DEPENDENCY, last[source[~late]], first[target[~late]], 0, -1)
    awaited = np.full(len(kernels), NEVER, dtype=np.int64)
    np.maximum.at(awaited, target[~late], kernels.end[source[~late]])
    before = kernels.before
    ended = kernels.ended
    call = events.launch[kernels.event]
    launch_node = np.where(call >= 0, events.start_node[call], -1)
    by_launch = (call >= 0) & (kernels.launched > ended) & (kernels.launched > awaited)
    by_launch &= rules.launches | ~_followed(kernels)
    queued = _waits_for_work_before(kernels, by_launch, awaited) & (call >= 0) & rules.waits
    delayed = by_launch & ~queued
    edge_list.add_time(EdgeKind.DEPENDENCY, launch_node[queued], first[queued], row[queued])
    edge_list.add_time(EdgeKind.LAUNCH_DELAY, launch_node[delayed], first[delayed], row[delayed])
    soon = kernels.start < ended + KERNEL_GAP_NS
    behind = (before >= 0) & ~by_launch & soon & (ended > awaited)
    # A kernel that overlaps the one before does not wait for its end: connect the starts.
    overlapping = (before >= 0) & (ended > kernels.start) & (kernels.start > kernels.start[before])
    in_turn = behind & ~overlapping
    edge_list.add_time(
        EdgeKind.KERNEL_KERNEL_DELAY, last[before[in_turn]], first[in_turn], row[before[in_turn]]
    )
    edge_list.add_time(
        EdgeKind.OPERATOR, first[before[overlapping]], first[overlapping], row[before[overlapping]]
    )
    if rules.launches:
        rest = (call >= 0) & ~delayed & ~queued
        edge_list.add(EdgeKind.DEPENDENCY, launch_node[rest], first[rest], 0, -1)


def _followed(kernels: Kernels) -> Bool:
    """Mask of the kernels behind which another one was launched onto their stream before they
    started: HTA takes none of these to have waited for its launch."""
    launches = np.flatnonzero(kernels.launched > NEVER)
    stream, time = kernels.stream[launches], kernels.launched[launches]
    following = entry_after(stream, time, kernels.stream, kernels.launched)
    if not len(launches):
        return np.zeros(len(kernels), dtype=np.bool_)
    return np.asarray((following >= 0) & (time[following] <= kernels.start))


def _waits_for_work_before(kernels: Kernels, by_launch: Bool, awaited: Int64) -> Bool:
    """Mask of the kernels that waited for work launched before the window: the last work on their
    stream, or what kept the device busy while an idle stream's kernel did not start."""
    behind = (kernels.before < 0) & (kernels.ended > np.maximum(kernels.launched, awaited))
    late = kernels.start > kernels.launched + KERNEL_GAP_NS
    return behind | (by_launch & late & (kernels.device_ended > kernels.launched))


def inferred_waits(kernels: Kernels) -> tuple[Int64, Int64]:
    """Pairs (source, target): the target was launched long before, its stream had been idle, and it
    started right after work on another stream of its device had ended. Where it started so late
    that it must have waited for something, it is taken to have waited for the last such work."""
    none = np.empty(0, dtype=np.int64)
    if not len(kernels):
        return none, none
    ready = np.maximum(kernels.ended, kernels.launched)
    asking = np.flatnonzero((kernels.launched > NEVER) & (kernels.start - WAKE_NS > ready))
    device = kernels.stream >> 33
    source = entry_before(device, kernels.end, device[asking], kernels.start[asking])
    asking, source = asking[source >= 0], source[source >= 0]
    start, done = kernels.start[asking], kernels.end[source]
    fits = (start - done <= WAKE_NS) | (
        (start - KERNEL_GAP_NS > ready[asking]) & (done > ready[asking])
    )
    fits &= (kernels.stream[asking] != kernels.stream[source]) & (done > kernels.start[source])
    return source[fits], asking[fits]
