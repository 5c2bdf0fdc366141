"""What a critical path is made of: the window, the events in it, and the start and end of each as
nodes in time.

Nodes are numbered in order of time, and at one moment so that what ends comes before what begins;
an edge always leads to a higher number, so the numbers are a topological order and no cycle is
possible.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

import numpy as np

from faultline.analysis.traces.columns.device import launched_by, on_runtime
from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
from faultline.analysis.traces.columns.intervals import covered, union
from faultline.analysis.traces.columns.steps import PHASES, steps_of

OPERATOR_CATEGORIES = ("cpu_op", "operator")
SORTABLE_NS = 1 << 58
"""Longest trace (9 years) whose times and kinds of marks fit one sorting key."""


@dataclass(frozen=True)
class PathWindow:
    """[begin, end) in ns: host events that start in it, and the work on the device that they
    launched."""

    begin: int
    end: int
    label: str = "whole trace"


@dataclass(frozen=True)
class Rules:
    """Where the model goes beyond HTA's; all on by default, all off is HTA's model."""

    gaps: bool = True
    """Time between the outermost operators of the main thread (and of the backward threads it waits
    for) counts."""
    waits: bool = True
    """A blocking call counts from the moment that what it waited for was done, all of it where
    nothing is known; and so does a kernel's wait for work that was launched before the window."""
    inferred: bool = True
    """Without synchronization events in the trace, waits are inferred from the times."""
    launches: bool = True
    """Every kernel waits for its launch, and one launched onto an idle stream waits for nothing
    else."""
    backward: bool = True
    """The backward pass starts when the main thread has called it, and the main thread goes on when
    it is done. HTA knows this for one backward thread, and only where one thread alone has names
    with "forward"."""
    data_loading: re.Pattern[str] | None = PHASES["data loading"]
    """Annotations of the data loader; their time, and that of all within them, is data loading."""


DEFAULT_RULES = Rules()


def whole_trace(trace: TraceColumns) -> PathWindow:
    """All of it."""
    if not len(trace):
        return PathWindow(0, 0)
    # Half open: + 1 takes in an event that starts at the very end.
    return PathWindow(int(trace.ts.min()), int(trace.end.max()) + 1)


def step_window(trace: TraceColumns, number: int) -> PathWindow | None:
    """The profiler's step of that number; None where there is none."""
    steps = steps_of(trace).only({number})
    if not len(steps):
        return None
    return PathWindow(int(steps.start[0]), int(steps.end[0]), f"step {number}")


def last_complete_step(trace: TraceColumns) -> PathWindow | None:
    """The last step but one of several: the profiler stops before the last one's work on the device
    is done."""
    steps = steps_of(trace)
    if not len(steps):
        return None
    number = int(steps.number[max(len(steps) - 2, 0)])
    return step_window(trace, number)


def annotation_window(
    trace: TraceColumns, text: str, first: int = 0, last: int | None = None
) -> PathWindow | None:
    """From the start of the first to the end of the last of the host events whose name contains the
    text, numbered from 0 by start. None where there are not this many."""
    rows = trace.rows_named(lambda name: text in name)
    rows = rows[~trace.in_category("gpu_user_annotation")[rows]]
    chosen = rows[first : (first if last is None else last) + 1]
    if first < 0 or not len(chosen):
        return None
    return PathWindow(int(trace.ts[chosen].min()), int(trace.end[chosen].max()), f"{text} {first}")


@dataclass(frozen=True)
class Events:
    """The events of a window and their nodes. Events are numbered in order of start, outer ones
    first."""

    row: Int64
    """Row of the trace, per event."""
    on_device: Bool
    launch: Int64
    """The event that launched this one; -1 where it is no work on the device or its launch is not
    in the window."""
    start_node: Int64
    end_node: Int64
    node_event: Int64
    node_is_start: Bool
    node_time: Int64
    """ns, per node, ascending."""

    def __len__(self) -> int:
        return len(self.row)

    @property
    def node_count(self) -> int:
        """Two per event."""
        return len(self.node_time)

    def start(self, events: Int64) -> Int64:
        """Start of some events, ns."""
        return self.node_time[self.start_node[events]]

    def end(self, events: Int64) -> Int64:
        """End of some events, ns."""
        return self.node_time[self.end_node[events]]

    def of_rows(self, length: int) -> Int64:
        """Row of the trace (of that many) -> event; -1 for rows outside the window."""
        table = np.full(length, -1, dtype=np.int64)
        table[self.row] = np.arange(len(self))
        return table


def events_of(trace: TraceColumns, window: PathWindow, rules: Rules) -> Events:
    """The window's operators, runtime calls, data loading, and the work that they launched.

    Work without a launch in the trace counts where it starts in the window.
    """
    inside = (trace.ts >= window.begin) & (trace.ts < window.end)
    host = (
        trace.in_category(*OPERATOR_CATEGORIES) | on_runtime(trace) | loading(trace, rules)
    ) & inside
    launch = launched_by(trace)
    has_launch = launch >= 0
    device = trace.on_device & np.where(has_launch, inside[launch], inside)
    rows = np.flatnonzero(host | device)
    start, end = trace.ts[rows], trace.end[rows]
    # Outer events first: of one start the longer one.
    order = np.lexsort((rows, -end, start))
    return _with_nodes(rows[order], start[order], end[order], device[rows][order], launch)


def loading(trace: TraceColumns, rules: Rules) -> Bool:
    """Mask of the data loader's annotations on the host."""
    pattern = rules.data_loading
    if pattern is None:
        return np.zeros(len(trace), dtype=np.bool_)
    name_mask = np.asarray(
        [pattern.search(name) is not None for name in trace.names], dtype=np.bool_
    )
    named = name_mask[trace.name] if len(name_mask) else np.zeros(len(trace), dtype=np.bool_)
    return named & ~trace.on_device & ~trace.in_category("gpu_user_annotation", "python_function")


def _with_nodes(row: Int64, start: Int64, end: Int64, device: Bool, launch_row: Int64) -> Events:
    count = len(row)
    empty = end == start
    # At one moment ends come before starts; eight kinds of marks fix the order.
    opening = np.where(device, np.where(empty, 5, 7), np.where(empty, 2, 4))
    closing = np.where(device, np.where(empty, 6, 0), np.where(empty, 3, 1))
    # Ends stand in reverse, so that of one moment the inner event's comes first.
    event = np.concatenate((np.arange(count)[::-1], np.arange(count)))
    time = np.concatenate((end[::-1], start))
    kind = np.concatenate((closing[::-1], opening)).astype(np.int64)
    if len(time) and int(time.max()) - int(time.min()) < SORTABLE_NS:
        order = np.argsort((time - time.min()) * 8 + kind, kind="stable")
    else:
        order = np.lexsort((kind, time))
    place = np.empty(2 * count, dtype=np.int64)
    place[order] = np.arange(2 * count)
    # The extra place answers -1, a row without a launch.
    table = np.full(len(launch_row) + 1, -1, dtype=np.int64)
    table[row] = np.arange(count)
    return Events(
        row=row,
        on_device=device,
        launch=np.where(device, table[launch_row[row]], -1),
        start_node=place[count:],
        end_node=place[:count][::-1],
        node_event=event[order],
        node_is_start=order >= count,
        node_time=time[order],
    )


# Edges of the critical path's graph: their kinds, and a place to gather them.

Int8 = np.ndarray[tuple[int], np.dtype[np.int8]]


class EdgeKind(IntEnum):
    """What an edge stands for."""

    OPERATOR = 0
    """Time inside an operator, a runtime call or a kernel."""
    DEPENDENCY = 1
    """One thing after another on a thread, or a kernel after its launch."""
    SYNC_DEPENDENCY = 2
    """The end of work on the device that a call of the host, or work on another stream, waited
    for."""
    LAUNCH_DELAY = 3
    """From a launch to the start of its kernel on an idle stream."""
    KERNEL_KERNEL_DELAY = 4
    """Between two kernels of one stream."""


HTA_NAMES = {
    EdgeKind.OPERATOR: "critical_path_operator",
    EdgeKind.DEPENDENCY: "critical_path_dependency",
    EdgeKind.SYNC_DEPENDENCY: "critical_path_sync_dependency",
    EdgeKind.LAUNCH_DELAY: "critical_path_kernel_launch_delay",
    EdgeKind.KERNEL_KERNEL_DELAY: "critical_path_kernel_kernel_delay",
}
"""The names of the kinds in traces with the path drawn in."""


@dataclass(frozen=True)
class Edges:
    """All edges of a graph: node to node, time in ns, and the trace's row that the time belongs to
    (-1: none)."""

    source: Int64
    target: Int64
    kind: Int8
    weight: Int64
    row: Int64

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def order(self) -> Int64:
        """The edges by source: a topological order."""
        return np.argsort(self.source, kind="stable")


@dataclass
class EdgeList:
    """Edges as they are found. What would lead back in time is left out and counted in `lost`."""

    events: Events
    parts: list[tuple[Int64, Int64, Int8, Int64, Int64]] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)

    def add(
        self, kind: EdgeKind, source: Int64, target: Int64, weight: Int64 | int, row: Int64 | int
    ) -> None:
        """Nodes, ns and rows of edges of one kind; one number stands for a whole column."""
        # Nodes are numbered in order of time: a lower target would lead back.
        forward = source < target
        self.lost["edges against time"] += int((~forward).sum())
        count = int(forward.sum())
        self.parts.append(
            (
                source[forward],
                target[forward],
                np.full(count, kind, dtype=np.int8),
                _column(weight, len(forward))[forward],
                _column(row, len(forward))[forward],
            )
        )

    def add_time(self, kind: EdgeKind, source: Int64, target: Int64, row: Int64 | int) -> None:
        """Edges that weigh the time between their nodes."""
        time = self.events.node_time
        self.add(kind, source, target, time[target] - time[source], row)

    def edges(self) -> Edges:
        """All of them."""
        if not self.parts:
            empty = np.empty(0, dtype=np.int64)
            return Edges(empty, empty, np.empty(0, dtype=np.int8), empty, empty)
        return Edges(*(np.concatenate(column) for column in zip(*self.parts, strict=True)))


def _column(values: Int64 | int, length: int) -> Int64:
    return np.broadcast_to(np.asarray(values, dtype=np.int64), length)


def count_up_to(
    keys: Int64, times: Int64, query_keys: Int64, query_times: Int64
) -> tuple[Int64, Int64]:
    """As-of lookup: an order of the entries by (key, time), and for each question how many of them
    lie up to it.

    The entry before a question is `order[place - 1]`, the one after it `order[place]`, where their
    key is the asked one. O(n log n).
    """
    count = len(keys)
    # At one time entries sort before questions, so that "up to" includes them.
    kind = np.repeat(np.asarray([0, 1]), [count, len(query_keys)])
    together = np.lexsort(
        (kind, np.concatenate((times, query_times)), np.concatenate((keys, query_keys)))
    )
    entry = together < count
    place = np.empty(len(together), dtype=np.int64)
    place[together] = np.cumsum(entry)
    return together[entry], place[count:]


def entry_before(keys: Int64, times: Int64, query_keys: Int64, query_times: Int64) -> Int64:
    """For each question the last entry of its key with a time up to it; -1 where there is none."""
    order, place = count_up_to(keys, times, query_keys, query_times)
    return _entries(keys, order, place - 1, query_keys)


def entry_after(keys: Int64, times: Int64, query_keys: Int64, query_times: Int64) -> Int64:
    """For each question the first entry of its key with a later time; -1 where there is none."""
    order, place = count_up_to(keys, times, query_keys, query_times)
    return _entries(keys, order, place, query_keys)


def _entries(keys: Int64, order: Int64, place: Int64, query_keys: Int64) -> Int64:
    if not len(order):
        return np.full(len(query_keys), -1, dtype=np.int64)
    # Clip for a safe look-up; `fits` rejects the places outside.
    entries = order[np.clip(place, 0, len(order) - 1)]
    fits = (place >= 0) & (place < len(order)) & (keys[entries] == query_keys)
    return np.asarray(np.where(fits, entries, -1), dtype=np.int64)


# Gaps in which the host polls its device.
#
# A host that waits by asking again and again (`while not event.query()`), or by a call that the
# profiler does not record, looks like one that computes between its operators. Where the device
# works through such a gap and the host goes on as soon as it is done, the gap is a wait for the
# device.

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
