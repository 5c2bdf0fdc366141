"""What a critical path is made of: the window, the events in it, and the start and end of each as
nodes in time.

Nodes are numbered in order of time, and at one moment so that what ends comes before what begins;
an edge always leads to a higher number, so the numbers are a topological order and no cycle is
possible.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import launched_by, on_runtime
from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
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
