"""Edges between the events of the host's threads.

On one thread each mark (a start or an end) leads to the next. Inside an operator the time between
them counts and belongs to the innermost operator that is open; between outermost operators only the
main thread's time does, and not where it polls the device. The backward pass runs on separate
threads while the main thread waits: each of its bursts is reached from the main thread and returns
to it. Calls that hold the runtime's lock at the same time count one after the other. Source of the
rules: HTA's critical path analysis; where they differ is in the documentation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.events import Bool, Int32, Int64, TraceColumns
from faultline.analysis.traces.columns.steps import AUTOGRAD, is_step
from faultline.analysis.traces.per_rank.critical_path_events import (
    OPERATOR_CATEGORIES,
    EdgeKind,
    EdgeList,
    Events,
    Rules,
    polling_gaps,
)

LOCKING = re.compile(
    r"^(?:cuda|hip)(?:HostAlloc|HostMalloc|LaunchKernel|MemcpyAsync|MemcpyWithStream"
    r"|ExtModuleLaunchKernel|"
    r"ModuleLaunchKernel)$"
)
"""Calls that take the runtime's lock. HTA names cudaHostAlloc, cudaLaunchKernel,
cudaMemcpyAsync."""

BLOCKING = re.compile(
    r"^(?:cuda|hip)(?:DeviceSynchronize|StreamSynchronize|EventSynchronize|Memcpy|MemcpyDtoH"
    r"|MemcpyWithStream)$|"
    r"^cu(?:Ctx|Stream|Event)Synchronize$|^cuMemcpy(?:DtoH|HtoD)?_v2$|"
    r"^ze(?:CommandQueueSynchronize|FenceHostSynchronize|EventHostSynchronize"
    r"|CommandListHostSynchronize)$|"
    r"^ur(?:QueueFinish|EventWait)$"
)
"""Calls that return only when work on the device is done. HTA's list has cudaEventQuery, which
never waits."""

# Both lie below every time, so that comparisons with times need no mask.
NOT_BLOCKING = int(np.iinfo(np.int64).min)
UNKNOWN = NOT_BLOCKING + 1


@dataclass(frozen=True)
class HostMarks:
    """The host's nodes, thread by thread, each in order of time."""

    node: Int64
    lane: Int32
    depth: Int64
    """Events open on the thread after the mark."""


def host_edges(
    trace: TraceColumns, events: Events, rules: Rules, edge_list: EdgeList, unblocked: Int64
) -> None:
    """Add the edges between host events.

    `unblocked` gives per event when the work that a blocking call waited for was done (ns);
    NOT_BLOCKING where it is no such call, UNKNOWN where that is not known.
    """
    marks = host_marks(trace, events)
    autograd = autograd_lanes(trace, events, marks)
    main = main_lane(trace, events, autograd)
    autograd = autograd[autograd != main]
    if rules.backward:
        _fork_and_join(events, marks, main, autograd, rules, edge_list)
    _chains(trace, events, marks, main, autograd, rules, edge_list, unblocked)


def host_marks(trace: TraceColumns, events: Events) -> HostMarks:
    """All starts and ends on the host."""
    node = np.flatnonzero(~events.on_device[events.node_event])
    lane = trace.lane[events.row[events.node_event[node]]]
    order = np.argsort(lane, kind="stable")
    node, lane = node[order], lane[order]
    return HostMarks(
        node, lane, np.cumsum(np.where(events.node_is_start[node], 1, -1), dtype=np.int64)
    )


def autograd_lanes(trace: TraceColumns, events: Events, marks: HostMarks) -> Int32:
    """Threads of the backward pass: most of their outermost operators are calls of the autograd
    engine. On the CPU the engine works on the thread that called it."""
    name_mask = np.asarray(
        [AUTOGRAD.match(name) is not None for name in trace.names], dtype=np.bool_
    )
    outermost = (marks.depth == 1) & events.node_is_start[marks.node]
    lane = marks.lane[outermost]
    if not len(lane):
        return np.empty(0, dtype=np.int32)
    engine = name_mask[trace.name[events.row[events.node_event[marks.node[outermost]]]]]
    count = int(lane.max()) + 1
    mostly = 2 * np.bincount(lane[engine], minlength=count) > np.bincount(lane, minlength=count)
    return np.asarray(np.flatnonzero(mostly), dtype=np.int32)


def main_lane(trace: TraceColumns, events: Events, autograd: Int32) -> int:
    """The thread that drives the training: of the profiler's steps, else of the most operators and
    none of the `autograd`; -1 for none."""
    steps = trace.rows_named(is_step)
    threads = trace.lane[steps[~trace.in_category("gpu_user_annotation")[steps]]]
    if len(threads):
        return int(np.bincount(threads).argmax())
    lanes = trace.lane[events.row[~events.on_device]]
    lanes = lanes[~np.isin(lanes, autograd)]
    return int(np.bincount(lanes).argmax()) if len(lanes) else -1


def named(trace: TraceColumns, events: Events, pattern: re.Pattern[str]) -> Bool:
    """Mask of the host events whose name matches."""
    name_mask = np.asarray(
        [pattern.match(name) is not None for name in trace.names], dtype=np.bool_
    )
    if not len(name_mask):
        return np.zeros(len(events), dtype=np.bool_)
    return np.asarray(name_mask[trace.name[events.row]] & ~events.on_device)


def _chains(
    trace: TraceColumns,
    events: Events,
    marks: HostMarks,
    main: int,
    autograd: Int32,
    rules: Rules,
    edge_list: EdgeList,
    unblocked: Int64,
) -> None:
    if len(marks.node) < 2:
        return
    u, v, depth = marks.node[:-1], marks.node[1:], marks.depth[:-1]
    same = marks.lane[:-1] == marks.lane[1:]
    between = same & (depth == 0)
    gaps = rules.gaps and _has_operators(trace, events, main)
    # Mask of the gaps (from mark i to i + 1) during which a backward thread starts an operator.
    other = np.isin(marks.lane, autograd)
    starts = np.sort(marks.node[other & (marks.depth == 1) & events.node_is_start[marks.node]])
    before = np.searchsorted(starts, marks.node)
    counted = (
        between
        & (marks.lane[1:] == main)
        & gaps
        & ~np.asarray((before[1:] > before[:-1]) & ~other[1:])
    )
    indexes = np.flatnonzero(counted)
    polling, waited = polling_gaps(events, u[indexes], v[indexes])
    counted[indexes[polling]] = False
    drained = waited >= 0
    edge_list.add_time(EdgeKind.SYNC_DEPENDENCY, waited[drained], v[indexes[drained]], -1)
    edge_list.add_time(EdgeKind.DEPENDENCY, u[counted], v[counted], -1)
    edge_list.add(EdgeKind.DEPENDENCY, u[between & ~counted], v[between & ~counted], 0, -1)
    inside = np.flatnonzero(same & (depth > 0))
    u, v = u[inside], v[inside]
    owner = _owner(events, marks, inside)
    weight = events.node_time[v] - events.node_time[u]
    done = np.where(events.node_is_start[v], NOT_BLOCKING, unblocked[events.node_event[v]])
    began = events.start(events.node_event[v])
    blocked = done > began if rules.waits else done != NOT_BLOCKING
    free = _lock_free(trace, events, edge_list)[events.node_event[v]]
    lock_waits = ~events.node_is_start[v] & (free > began) & (done == NOT_BLOCKING)
    weight = np.where(
        lock_waits, np.minimum(weight, events.node_time[v] - free), np.where(blocked, 0, weight)
    )
    edge_list.add(EdgeKind.OPERATOR, u, v, weight, events.row[owner])


def _has_operators(trace: TraceColumns, events: Events, lane: int) -> bool:
    """Whether the profiler recorded operators on the thread. Where it recorded none, the time
    between calls does not show the host's work."""
    rows = events.row[~events.on_device]
    rows = rows[trace.lane[rows] == lane]
    return bool(trace.in_category(*OPERATOR_CATEGORIES)[rows].any())


def _owner(events: Events, marks: HostMarks, places: Int64) -> Int64:
    """The event that the time from a mark to the next belongs to: the innermost one that is
    open."""
    node, following = marks.node[places], marks.node[places + 1]
    opens, closes = events.node_is_start[node], ~events.node_is_start[following]
    owner = np.where(opens, events.node_event[node], events.node_event[following])
    siblings = np.flatnonzero(~opens & ~closes)
    if len(siblings):
        starts = np.flatnonzero(events.node_is_start[marks.node])
        place = places[siblings]
        enclosing = _last_start(marks.depth[starts], starts, marks.depth[place], place)
        owner[siblings] = events.node_event[marks.node[enclosing]]
    return np.asarray(owner)


def _last_start(depths: Int64, places: Int64, query_depths: Int64, query_places: Int64) -> Int64:
    """The last start before a place that reached this depth; there is one wherever the depth is
    above 0."""
    size = int(places.max()) + 2
    keys = depths * size + places
    # Depth and place in one key, so that a single search finds both.
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(keys[order], query_depths * size + query_places) - 1
    return np.asarray(places[order][np.maximum(place, 0)])


def _fork_and_join(
    events: Events, marks: HostMarks, main: int, autograd: Int32, rules: Rules, edge_list: EdgeList
) -> None:
    """The main thread's gaps hold the bursts of the backward threads: from its last end to the
    first start of each burst, and from the last end of the burst to the main thread's next
    start."""
    on_main = marks.lane == main
    trunk, idle = marks.node[on_main], marks.depth[on_main] == 0
    on_autograd = np.isin(marks.lane, autograd)
    node, depth, lane = marks.node[on_autograd], marks.depth[on_autograd], marks.lane[on_autograd]
    opens, closes = (
        events.node_is_start[node] & (depth == 1),
        ~events.node_is_start[node] & (depth == 0),
    )
    starts, ends, lane = node[opens], node[closes], lane[opens]
    if not len(trunk) or not len(starts):
        return
    gap, end_gap = np.searchsorted(trunk, starts), np.searchsorted(trunk, ends)
    follows = lane[1:] == lane[:-1]
    in_gap = (gap > 0) & idle[np.maximum(gap - 1, 0)]
    # Of the starts in one gap only the first forks: the others follow it on their thread.
    first = in_gap & np.concatenate(([True], (gap[1:] != gap[:-1]) | ~follows))
    _link(edge_list, rules, trunk[gap[first] - 1], starts[first])
    ends_in_gap = (end_gap < len(trunk)) & ((end_gap == 0) | idle[np.maximum(end_gap - 1, 0)])
    last = ends_in_gap & np.concatenate(((end_gap[1:] != end_gap[:-1]) | ~follows, [True]))
    _link(edge_list, rules, ends[last], trunk[end_gap[last]])
    if rules.gaps:
        within = (gap[1:] == end_gap[:-1]) & in_gap[1:] & follows
        edge_list.add_time(EdgeKind.DEPENDENCY, ends[:-1][within], starts[1:][within], -1)


def _link(edge_list: EdgeList, rules: Rules, source: Int64, target: Int64) -> None:
    if rules.gaps:
        edge_list.add_time(EdgeKind.DEPENDENCY, source, target, -1)
    else:
        edge_list.add(EdgeKind.DEPENDENCY, source, target, 0, -1)


def _lock_free(trace: TraceColumns, events: Events, edge_list: EdgeList) -> Int64:
    """When a locking call got the lock, per event: at the end of the last locking call before its
    own end, where that lies inside it and on another thread; NOT_BLOCKING elsewhere. Adds the edges
    from end to end."""
    free = np.full(len(events), NOT_BLOCKING, dtype=np.int64)
    holders = np.flatnonzero(named(trace, events, LOCKING))
    if len(holders) < 2:
        return free
    # The lock passes from holder to holder in the order in which their calls end.
    holders = holders[np.argsort(events.end_node[holders])]
    before, after = holders[:-1], holders[1:]
    lanes = trace.lane[events.row]
    late = (events.end_node[before] > events.start_node[after]) & (lanes[before] != lanes[after])
    before, after = before[late], after[late]
    free[after] = events.end(before)
    edge_list.add_time(
        EdgeKind.OPERATOR, events.end_node[before], events.end_node[after], events.row[after]
    )
    return free
