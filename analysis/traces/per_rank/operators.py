"""Operators of one rank: what each costs on the host and on the accelerator, and how late its
kernels come.

The table by time is what users of a profiler know as `key_averages()`. The table of delays is HTA's
`get_aten_op_kernels_and_delay`, right where that is not: docs/trace-engine/differences.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import RUNTIME_CATEGORIES, Kind, kinds
from faultline.analysis.traces.columns.distribution import distinct_sequences
from faultline.analysis.traces.columns.events import Bool, Int32, Int64, TraceColumns
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable, rounded
from faultline.analysis.traces.per_rank.call_stacks import CallStacks, call_stacks, nearest

OPERATOR_CATEGORIES = ("cpu_op", "operator")
"""PyTorch's operators; "Operator" in traces of 2021."""
TABLE_CATEGORIES = (*OPERATOR_CATEGORIES, "user_annotation", *RUNTIME_CATEGORIES)
"""What the table by time has rows for: operators, annotations and the runtime's calls, as in
`key_averages()`."""


@dataclass(frozen=True)
class Operator:
    """All calls of one name (and category, and shapes where asked for)."""

    name: str
    category: str
    shapes: str
    """"Input Dims" as compact JSON; "" where not asked for or not recorded."""
    calls: int
    host_total_ns: int
    """Time inside; a call inside a call of the same row counts once."""
    host_self_ns: int
    """Time inside, but in no other operator, annotation or runtime call."""
    device_total_ns: int
    """Summed length of the kernels, copies and fills launched inside; each once."""
    device_self_ns: int
    """Summed length of those launched inside, but in no other operator or annotation."""
    kernels: int
    """Their number, inside at any depth."""


@dataclass(frozen=True)
class OperatorDelay:
    """Calls of one operator that launched the same sequence of kernels."""

    name: str
    kernels: tuple[str, ...]
    calls: int
    launch_delay_ns: float
    """Mean time from the operator's start to its first launch."""
    runtime_delay_ns: float
    """Mean time from its first launch to the start of the kernel that this launched."""


def operator_table(
    trace: TraceColumns, *, by_shapes: bool = False, stacks: CallStacks | None = None
) -> list[Operator]:
    """Operators, annotations and runtime calls by time on the host, own time first. O(n log n)."""
    stacks = stacks or call_stacks(trace)
    listed = trace.in_category(*TABLE_CATEGORIES) & stacks.inside
    rows = np.flatnonzero(listed)
    if not len(rows):
        return []
    group, first = _groups(trace, rows, by_shapes)
    counted = _outermost_of_group(trace, rows, group)
    self_ns = _self_time(trace, stacks, listed)[rows]
    count = int(group.max()) + 1
    calls = np.bincount(group, minlength=count)
    host_total = _sum_by(group[counted], trace.dur[rows[counted]], count)
    device_total = _sum_by(group[counted], stacks.kernel_sum_ns[rows[counted]], count)
    kernels = _sum_by(group[counted], stacks.num_kernels[rows[counted]].astype(np.int64), count)
    host_self = _sum_by(group, self_ns, count)
    device_self = _sum_by(group, _device_self(trace, stacks, listed)[rows], count)
    shapes = trace.arguments.text("Input Dims").at(rows[first]) if by_shapes else [""] * count
    order = np.argsort(-host_self, kind="stable").tolist()
    return [
        Operator(
            trace.name_of(int(rows[first[g]])),
            trace.category_of(int(rows[first[g]])),
            shapes[g],
            int(calls[g]),
            int(host_total[g]),
            int(host_self[g]),
            int(device_total[g]),
            int(device_self[g]),
            int(kernels[g]),
        )
        for g in order
    ]


def operator_delays(
    trace: TraceColumns,
    *,
    prefix: str = "aten::",
    copies: bool = False,
    stacks: CallStacks | None = None,
) -> list[OperatorDelay]:
    """Sequences of kernels by the innermost operator around their launches; most frequent first.

    The operator is looked for on the launching thread. A launch of several kernels (a graph) counts
    once, with all of them. `prefix` "" takes all operators; `copies` counts copies and fills as
    kernels.
    """
    return _delays(trace, *_launched(trace, stacks or call_stacks(trace), prefix, copies))


def _launched(
    trace: TraceColumns, stacks: CallStacks, prefix: str, copies: bool
) -> tuple[Int64, Int32, Int32]:
    """Kernels, their launches and the innermost operators around these, by operator, then in the
    order of the launches."""
    named = np.asarray([name.startswith(prefix) for name in trace.names], dtype=np.bool_)
    operator = trace.in_category(*OPERATOR_CATEGORIES) & (
        named[trace.name] if len(named) else False
    )
    kernels = np.flatnonzero(trace.on_device & (stacks.parent >= 0))
    if not copies:
        kernels = kernels[kinds(trace)[kernels] != Kind.MEMORY]
    launches = stacks.parent[kernels]
    owner = nearest(_on_thread(trace, stacks), operator)[launches]
    kernels, launches, owner = kernels[owner >= 0], launches[owner >= 0], owner[owner >= 0]
    # By launch before start: kernels on other streams may start out of order.
    order = np.lexsort((trace.ts[kernels], launches, trace.ts[launches], owner))
    return kernels[order], launches[order], owner[order]


LISTED = RowTable(
    TEXT("name", "category"),
    INT("calls", "host_self_ns", "host_total_ns", "device_self_ns", "device_total_ns", "kernels"),
)
TABLE = RowTable(LISTED.columns, rounded(0, "launch_delay_ns", "runtime_delay_ns"))


def rows(trace: TraceColumns) -> Rows:
    """The table by time as JSON values, with the mean delays of the operators that launch kernels
    themselves."""
    stacks = call_stacks(trace)
    table, delays = operator_table(trace, stacks=stacks), _mean_delays(trace, stacks)
    listing = LISTED.rows(table)
    for row in listing:
        if row["category"].lower() in OPERATOR_CATEGORIES:
            row.update(delays.get(row["name"], {}))
    return listing


def _mean_delays(trace: TraceColumns, stacks: CallStacks) -> dict[str, dict[str, int]]:
    """By operator, over all its sequences of kernels."""
    kernels, launches, owner = _launched(trace, stacks, prefix="", copies=False)
    starts = _starts(owner)
    first, operator = launches[starts], owner[starts]
    used, group, calls = np.unique(trace.name[operator], return_inverse=True, return_counts=True)
    launch, runtime = np.zeros((2, len(used)), dtype=np.int64)
    np.add.at(launch, group, trace.ts[first] - trace.ts[operator])
    np.add.at(runtime, group, trace.ts[kernels[starts]] - trace.ts[first])
    means = zip(used.tolist(), (launch / calls).tolist(), (runtime / calls).tolist(), strict=True)
    return {
        trace.names[name]: TABLE.row(launch_delay_ns=before, runtime_delay_ns=after)
        for name, before, after in means
    }


def _starts(owner: Int32) -> Int64:
    """Where each run of one owner begins."""
    if not len(owner):
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(np.concatenate(([True], owner[1:] != owner[:-1])))


def _delays(
    trace: TraceColumns, kernels: Int64, launches: Int32, owner: Int32
) -> list[OperatorDelay]:
    starts = _starts(owner)
    ends = np.append(starts[1:], len(owner))[: len(starts)]
    first_launch, operator = launches[starts], owner[starts]
    names = trace.name[kernels].astype(np.int32)
    first, kind = distinct_sequences(names, starts, ends, trace.name[operator])
    calls = np.bincount(kind, minlength=len(first))
    before = _sum_by(kind, trace.ts[first_launch] - trace.ts[operator], len(first)) / calls
    after = _sum_by(kind, trace.ts[kernels[starts]] - trace.ts[first_launch], len(first)) / calls
    table = []
    for number, place in enumerate(first.tolist()):
        name_ids = names[starts[place] : ends[place]].tolist()
        delay = OperatorDelay(
            trace.name_of(int(operator[place])),
            tuple(trace.names[i] for i in name_ids),
            int(calls[number]),
            float(before[number]),
            float(after[number]),
        )
        table.append(delay)
    return sorted(table, key=lambda d: (-d.calls, d.name, d.kernels))


def _groups(trace: TraceColumns, rows: Int64, by_shapes: bool) -> tuple[Int64, Int64]:
    """The group of each row, and the first row of each group."""
    key = trace.name[rows].astype(np.int64) * len(trace.categories) + trace.category[rows]
    if by_shapes:
        dims = trace.arguments.text("Input Dims")
        _, key = np.unique(key, return_inverse=True)
        # + 1 makes room for -1, a call without shapes.
        key = key * (len(dims.texts) + 1) + dims.ids_at(rows) + 1
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    return group.astype(np.int64), first.astype(np.int64)


def _outermost_of_group(trace: TraceColumns, rows: Int64, group: Int64) -> Bool:
    """Mask of the rows that lie in no other row of their group on their thread."""
    # Use ranks, not times: shifted once per section, ns could overflow.
    _, rank = np.unique(trace.end[rows], return_inverse=True)
    order = np.lexsort((-rank, trace.ts[rows], trace.lane[rows], group))
    new = np.concatenate(
        ([True], (np.diff(group[order]) != 0) | (np.diff(trace.lane[rows[order]]) != 0))
    )
    section = np.cumsum(new) - 1
    reach = np.maximum.accumulate(rank[order] + section * (len(rows) + 1))
    inside = np.concatenate(
        ([False], reach[:-1] >= rank[order][1:] + section[1:] * (len(rows) + 1))
    )
    mask = np.ones(len(rows), dtype=np.bool_)
    mask[order] = ~inside
    return mask


def _self_time(trace: TraceColumns, stacks: CallStacks, listed: Bool) -> Int64:
    """Length of each listed row less that of the listed rows next below it on its thread, ns."""
    parent = _on_thread(trace, stacks)
    rows = np.flatnonzero(listed & (parent >= 0))
    # Calls in between that have no row in the table are passed over.
    above = nearest(parent, listed)[parent[rows]]
    # Copy: the trace's own column must not change.
    dur = trace.dur.copy()
    np.subtract.at(dur, above[above >= 0], trace.dur[rows[above >= 0]])
    return np.maximum(dur, 0)


def _device_self(trace: TraceColumns, stacks: CallStacks, listed: Bool) -> Int64:
    """Length of the work on streams that each operator or annotation launched itself or through
    runtime calls; a runtime call has its own, too."""
    kernels = np.flatnonzero(trace.on_device & (stacks.parent >= 0))
    launches, length = stacks.parent[kernels], trace.dur[kernels]
    runtime = trace.in_category(*RUNTIME_CATEGORIES)
    self_ns = np.zeros(len(trace), dtype=np.int64)
    np.add.at(self_ns, launches[runtime[launches]], length[runtime[launches]])
    above = nearest(stacks.parent, listed & ~runtime)[launches]
    np.add.at(self_ns, above[above >= 0], length[above >= 0])
    return self_ns


def _on_thread(trace: TraceColumns, stacks: CallStacks) -> Int32:
    """Parents on the row's own thread; -1 where the parent is on another."""
    same = (
        trace.lane == trace.lane[np.maximum(stacks.parent, 0)]
        if len(trace)
        else np.empty(0, dtype=np.bool_)
    )
    return np.asarray(np.where(same, stacks.parent, -1), dtype=np.int32)


def _sum_by(group: Int64, values: Int64, count: int) -> Int64:
    total = np.zeros(count, dtype=np.int64)
    np.add.at(total, group, values)
    return total
