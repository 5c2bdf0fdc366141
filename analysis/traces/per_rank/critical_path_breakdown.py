"""What the time on a critical path is spent on: by bound, by operator or kernel, and edge by
edge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import Kind, kinds
from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
from faultline.analysis.traces.columns.intervals import clip, total, union
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable, rounded
from faultline.analysis.traces.per_rank.critical_path import CriticalPath, critical_path
from faultline.analysis.traces.per_rank.critical_path_device import ended_last
from faultline.analysis.traces.per_rank.critical_path_events import (
    DEFAULT_RULES,
    HTA_NAMES,
    EdgeKind,
    Rules,
    entry_before,
    last_complete_step,
    loading,
)
from faultline.analysis.traces.per_rank.critical_path_host import UNKNOWN

BOUNDS = (
    "",
    "cpu_bound",
    "data_loading",
    "gpu_compute_bound",
    "gpu_communication_bound",
    "gpu_memory",
    "gpu_kernel_kernel_overhead",
    "gpu_kernel_launch_overhead",
    "waiting",
)
"""What holds the time back; "" for dependencies that take no time. Waiting: a call that blocks for
unknown work, or work on the device that is delayed by work launched before the window."""
BETWEEN = "(between operators)"
"""Name of the main thread's time outside its operators: Python, mostly."""
QUESTIONED = 0.9
"""Share of the window in which the device works, beside which a path through the host is doubted
(our choice: such a device is what a user would speed up first)."""
MAX_EDGES = 10
MAX_WHAT_IF = 5
"""Names for which the window's path without them is worked out."""


@dataclass(frozen=True)
class NameOnPath:
    """One operator or kernel name on the path."""

    name: str
    bound: str
    time_ns: int
    edges: int


@dataclass(frozen=True)
class Breakdown:
    """A path's time."""

    path: CriticalPath
    bound: Int64
    """Index into BOUNDS, per edge of the path."""
    by_bound_ns: dict[str, int]
    """Bounds that occur, largest first; the sum is the path's length."""
    names: tuple[NameOnPath, ...]
    """Largest first."""


def breakdown(trace: TraceColumns, path: CriticalPath, rules: Rules = DEFAULT_RULES) -> Breakdown:
    """Where the time of a critical path of this trace goes."""
    bound = bounds(trace, path, rules)
    weight = path.edges.weight[path.path]
    sums = np.zeros(len(BOUNDS), dtype=np.int64)
    np.add.at(sums, bound, weight)
    matching_sums = {
        BOUNDS[i]: int(sums[i]) for i in np.argsort(-sums, kind="stable").tolist() if sums[i]
    }
    return Breakdown(path, bound, matching_sums, _names(trace, path, bound, weight))


def bounds(trace: TraceColumns, path: CriticalPath, rules: Rules) -> Int64:
    """Index into BOUNDS of each edge of the path."""
    chosen = path.path
    kind, row, weight = path.edges.kind[chosen], path.edges.row[chosen], path.edges.weight[chosen]
    # -1 stands for no row: clamp it here, the masks below leave those edges out.
    safe = np.maximum(row, 0)
    work = kinds(trace)[safe] if len(trace) else row
    # Later lines override earlier ones: from the general rule to the particular.
    indices = np.full(len(chosen), BOUNDS.index("cpu_bound"))
    indices[_while_loading(trace, row, rules)] = BOUNDS.index("data_loading")
    indices[_blocked(path)] = BOUNDS.index("waiting")
    on_device = (row >= 0) & (work != Kind.OTHER)
    for what, name in _WORK.items():
        indices[on_device & (work == what)] = BOUNDS.index(name)
    indices[on_device & (kind == EdgeKind.DEPENDENCY)] = BOUNDS.index("waiting")
    indices[kind == EdgeKind.LAUNCH_DELAY] = BOUNDS.index("gpu_kernel_launch_overhead")
    indices[kind == EdgeKind.KERNEL_KERNEL_DELAY] = BOUNDS.index("gpu_kernel_kernel_overhead")
    idle = np.isin(kind, (EdgeKind.DEPENDENCY, EdgeKind.SYNC_DEPENDENCY)) & (weight == 0)
    indices[idle] = BOUNDS.index("")
    return np.asarray(indices, dtype=np.int64)


_WORK = {
    Kind.COMPUTATION: "gpu_compute_bound",
    Kind.COMMUNICATION: "gpu_communication_bound",
    Kind.MEMORY: "gpu_memory",
}


def device_share(path: CriticalPath) -> float:
    """Share of the window in which the device works."""
    work = np.flatnonzero(path.events.on_device)
    spans = union(path.events.start(work), path.events.end(work))
    window = path.window
    return total(*clip(*spans, window.begin, window.end)) / max(window.end - window.begin, 1)


def _while_loading(trace: TraceColumns, row: Int64, rules: Rules) -> Bool:
    """Mask of the edges whose host row lies in an annotation of the data loader on its thread."""
    annotations = np.flatnonzero(loading(trace, rules))
    if not len(annotations):
        return np.zeros(len(row), dtype=np.bool_)
    lane = trace.lane.astype(np.int64)
    annotations = annotations[np.lexsort((trace.ts[annotations], lane[annotations]))]
    ends = trace.end[annotations]
    earlier = ended_last(lane[annotations], ends)
    # The annotation before may reach further than the last one to start.
    reach = np.where(earlier >= 0, np.maximum(ends, ends[earlier]), ends)
    last = entry_before(lane[annotations], trace.ts[annotations], lane[row], trace.ts[row])
    return np.asarray((row >= 0) & (last >= 0) & (trace.ts[row] < reach[last]))


def _blocked(path: CriticalPath) -> Bool:
    """Mask of the edges into the end of a blocking call, where it is unknown what the call waited
    for."""
    edges, events, chosen = path.edges, path.events, path.path
    target = edges.target[chosen]
    event = events.node_event[target]
    blocked = (path.unblocked[event] == UNKNOWN) & ~events.node_is_start[target]
    return np.asarray(blocked & (edges.row[chosen] == events.row[event]))


def _names(
    trace: TraceColumns, path: CriticalPath, bound: Int64, weight: Int64
) -> tuple[NameOnPath, ...]:
    row = path.edges.row[path.path]
    counted = weight > 0
    row, bound, weight = row[counted], bound[counted], weight[counted]
    name = np.where(row >= 0, trace.name[row], -1) if len(trace) else row
    # Name -1 is the time between operators: with + 1 the keys start at 0.
    key = (name + 1).astype(np.int64) * len(BOUNDS) + bound
    unique_keys, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    sums = np.zeros(len(unique_keys), dtype=np.int64)
    np.add.at(sums, inverse, weight)
    return tuple(
        NameOnPath(
            trace.names[unique_keys[i] // len(BOUNDS) - 1]
            if unique_keys[i] >= len(BOUNDS)
            else BETWEEN,
            BOUNDS[int(unique_keys[i]) % len(BOUNDS)],
            int(sums[i]),
            int(counts[i]),
        )
        for i in np.argsort(-sums, kind="stable").tolist()
    )


def what_if(
    trace: TraceColumns, path_breakdown: Breakdown, names: int = MAX_WHAT_IF
) -> dict[str, int]:
    """For the largest names on the path: how much shorter the longest path would be if they took no
    time, ns.

    It is at most their time on the path, and less where another path is nearly as long.
    """
    saved: dict[str, int] = {}
    for entry in path_breakdown.names:
        if (
            entry.name in saved
            or entry.name == BETWEEN
            or entry.bound == "waiting"
            or len(saved) >= names
        ):
            continue
        rows = np.flatnonzero(trace.name == trace.names.index(entry.name))
        saved[entry.name] = path_breakdown.path.length_ns - path_breakdown.path.length_without(rows)
    return saved


def longest_edges(trace: TraceColumns, path_breakdown: Breakdown, count: int = MAX_EDGES) -> Rows:
    """The longest single edges of the path, longest first, as HTA's breakdown table has them."""
    path, edges = path_breakdown.path, path_breakdown.path.edges
    table = []
    for place in np.argsort(-edges.weight[path.path], kind="stable")[:count].tolist():
        edge = int(path.path[place])
        row = int(edges.row[edge])
        table.append(
            TABLE.row(
                what="edge",
                name=trace.name_of(row) if row >= 0 else "",
                category=trace.category_of(row) if row >= 0 else "",
                event=trace.event[row] if row >= 0 else None,
                type=HTA_NAMES[EdgeKind(int(edges.kind[edge]))],
                start_ns=path.events.node_time[edges.source[edge]],
                time_ns=edges.weight[edge],
                bound_by=BOUNDS[int(path_breakdown.bound[place])],
            )
        )
    return table


TABLE = RowTable(
    TEXT("window", "what", "name", "bound_by"),
    INT("time_ns"),
    rounded(2, "of_path_percent"),
    TEXT("category"),
    INT("event"),
    TEXT("type"),
    INT("start_ns", "edges", "saved_if_removed_ns"),
)


def rows(trace: TraceColumns) -> Rows:
    """The path of the last complete step (of the whole trace where it has no steps): bounds,
    longest edges, names."""
    path = critical_path(trace, last_complete_step(trace))
    path_breakdown = breakdown(trace, path)
    whole = max(path.length_ns, 1)
    saved = what_if(trace, path_breakdown)
    window = path.window.label
    table = [TABLE.row(window=window, what="path", name="", bound_by="", time_ns=path.length_ns)]
    table += [TABLE.row(what="missing", name=reason) for reason in path.missing]
    busy = device_share(path)
    # A path through the host beside a busy device is doubtful: say so.
    if 2 * path_breakdown.by_bound_ns.get("cpu_bound", 0) > whole and busy >= QUESTIONED:
        reason = f"the device is busy {100 * busy:.0f} % of the window: what stands as the host's "
        table.append(TABLE.row(what="missing", name=reason + "time may be waiting for it"))
    for bound, ns in path_breakdown.by_bound_ns.items():
        share = 100 * ns / whole
        table.append(
            TABLE.row(what="bound", name="", bound_by=bound, time_ns=ns, of_path_percent=share)
        )
    table += longest_edges(trace, path_breakdown)
    for entry in path_breakdown.names:
        line = TABLE.row(
            what="name",
            name=entry.name,
            bound_by=entry.bound,
            time_ns=entry.time_ns,
            edges=entry.edges,
            of_path_percent=100 * entry.time_ns / whole,
        )
        if entry.name in saved and entry.bound != "waiting":
            line["saved_if_removed_ns"] = saved[entry.name]
        table.append(line)
    return table
