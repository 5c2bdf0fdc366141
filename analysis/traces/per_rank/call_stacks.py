"""The calls of one rank: a forest over the rows of a trace, from python frames down to kernels.

Calls of one thread nest by time. A kernel, copy or fill is a child of the call that launched it,
whatever its stream. Autograd's threads work while another thread waits in `backward()`: their
outermost calls become children of the innermost call that waits, so that a step's numbers include
its backward pass. After the call graph of Holistic Trace Analysis (hta/common/trace_call_graph.py);
where this differs: docs/trace-engine/differences.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.device import launched_by
from faultline.analysis.traces.columns.events import Bool, Int32, Int64, TraceColumns
from faultline.analysis.traces.columns.row_table import INT, TEXTS, Rows, RowTable, cached_per_trace
from faultline.analysis.traces.native.device_work import nesting_parents
from faultline.analysis.traces.native.lane import lane_order

# Trees held as one column: the row of each row's parent, -1 for roots.
#
# Everything here works by pointer doubling: after k rounds each row has seen its 2**k nearest
# ancestors, so a column of n rows whose deepest branch has d levels takes O(n log d), without
# recursion and without a loop over rows or levels. A column of parents must have no cycle: every
# parent starts before its child does.


def depths(parent: Int32) -> Int32:
    """Number of ancestors of each row."""
    depth = (parent >= 0).astype(np.int32)
    for rows, ancestor in _doublings(parent):
        depth[rows] += depth[ancestor]
    return depth


def nearest(parent: Int32, mask: Bool) -> Int32:
    """The row itself where it is wanted, else its nearest wanted ancestor; -1 where there is
    none."""
    rows = np.arange(len(parent), dtype=np.int32)
    ancestors = np.where(mask, rows, parent)
    open_rows = np.flatnonzero(~mask & (parent >= 0))
    while len(open_rows):
        ancestors[open_rows] = ancestors[ancestors[open_rows]]
        reached = ancestors[open_rows]
        open_rows = open_rows[(reached >= 0) & ~mask[reached]]
    return ancestors


def outermost(parent: Int32, mask: Bool) -> Int32:
    """The outermost wanted row among the row itself and its ancestors; -1 where there is none."""
    inner = nearest(parent, mask)
    tops = np.flatnonzero(mask)
    above = np.full(len(parent), -1, dtype=np.int32)
    inside = tops[parent[tops] >= 0]
    above[inside] = inner[parent[inside]]
    root = nearest(above, mask & (above < 0))
    return np.asarray(np.where(inner >= 0, root[inner], -1), dtype=np.int32)


def subtree_sums(parent: Int32, values: NDArray[np.int64]) -> Int64:
    """Sum of `values` over each row and all its descendants."""
    total = values.astype(np.int64)
    for rows, ancestor in _doublings(parent):
        # Most rows add nothing: skip their zeros.
        filled = total[rows] != 0
        np.add.at(total, ancestor[filled], total[rows[filled]])
    return total


def subtree_maxima(parent: Int32, values: NDArray[np.int64]) -> Int64:
    """Largest of `values` over each row and all its descendants."""
    top = values.astype(np.int64)
    for rows, ancestor in _doublings(parent):
        np.maximum.at(top, ancestor, top[rows])
    return top


def containing(parent: Int32, ends: Int64, first: Int32, query_end: Int64) -> Int32:
    """For each query the nearest row, from `first` upwards, that ends at or after `query_end`; -1
    where none does.

    Right where a parent never ends before its child.
    """
    at = first.copy()
    tables = [parent]
    while (jumped := _jump(tables[-1])) is not None:
        tables.append(jumped)
    for table in reversed(tables):
        short = np.flatnonzero(at >= 0)
        short = short[ends[at[short]] < query_end[short]]
        above = table[at[short]]
        further = (above >= 0) & (ends[above] < query_end[short])
        at[short[further]] = above[further]
    # The jumps stop at the last row that ends too early; its parent is the answer.
    short = np.flatnonzero(at >= 0)
    short = short[ends[at[short]] < query_end[short]]
    at[short] = parent[at[short]]
    return at


def children_index(parent: Int32, order: NDArray[np.integer]) -> tuple[Int64, Int32]:
    """(first, rows): the children of row r are `rows[first[r]:first[r + 1]]`, in the order
    given."""
    with_parent = order[parent[order] >= 0]
    parents = parent[with_parent]
    rows = with_parent[np.argsort(parents, kind="stable")].astype(np.int32)
    counts = np.bincount(parents, minlength=len(parent))
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64), rows


def _doublings(parent: Int32) -> Iterator[tuple[Int64, Int32]]:
    """Rows that have a 2**k-th ancestor, and that ancestor, for k = 0, 1, ...; what is read in a
    round is a copy."""
    table: Int32 | None = parent
    while table is not None:
        rows = np.flatnonzero(table >= 0)
        if not len(rows):
            return
        yield rows, table[rows]
        table = _jump(table)


def _jump(table: Int32) -> Int32 | None:
    """The ancestor twice as far; None where no row has one."""
    rows = np.flatnonzero(table >= 0)
    further = np.full(len(table), -1, dtype=np.int32)
    further[rows] = table[table[rows]]
    return further if (further >= 0).any() else None


NOT_CALLS = ("trace", "gpu_user_annotation", "cuda_sync", "cuda_profiler_range")
"""Categories of rows that are neither a thread's calls nor work on a stream."""
AUTOGRAD = "autograd::"
"""In the names of what autograd's threads run."""
MAX_FRAMES = 128
"""Longest stack that is folded; what lies deeper counts for its last frame."""
MAX_FOLDED = 20_000
"""Most stacks folded, and most rows given as JSON."""


@dataclass(frozen=True, eq=False)
class CallStacks:
    """The forest; every array has one entry per row of the trace."""

    trace: TraceColumns
    parent: Int32
    """Row of the caller, or of the launch; -1 for none."""
    order: Int32
    """The rows in the forest, so that callers come before what they call and siblings stand by
    start."""
    forward: Int32
    """For a call of the backward pass, the row of the forward operator whose gradient it computes;
    -1 elsewhere."""
    overlaps: int
    """Calls that begin inside another of their thread and end after it: they are its children all
    the same."""

    @cached_property
    def depth(self) -> Int32:
        """Number of callers above; -1 for rows outside the forest."""
        depth = depths(self.parent)
        depth[~self.inside] = -1
        return depth

    @cached_property
    def inside(self) -> Bool:
        """Mask of the rows that are in the forest."""
        mask = np.zeros(len(self.parent), dtype=np.bool_)
        mask[self.order] = True
        return mask

    @cached_property
    def height(self) -> Int32:
        """0 for work on a stream, for a call 1 more than its highest callee and at least 1; -1
        outside the forest."""
        levels = np.where(self._kernels, self.depth - 1, self.depth)
        height = subtree_maxima(self.parent, levels) - self.depth + 1
        return np.asarray(
            np.where(self._kernels, 0, np.where(self.inside, height, -1)), dtype=np.int32
        )

    @cached_property
    def num_kernels(self) -> Int32:
        """Kernels, copies and fills launched by the row and everything below it; 1 for such a row
        itself."""
        return subtree_sums(self.parent, self._kernels.astype(np.int64)).astype(np.int32)

    @cached_property
    def kernel_sum_ns(self) -> Int64:
        """Their summed length, ns."""
        return subtree_sums(self.parent, np.where(self._kernels, self.trace.dur, 0))

    @cached_property
    def self_ns(self) -> Int64:
        """For a call its length less that of the calls it makes on its thread; the length of work
        on a stream."""
        dur = self.trace.dur.copy()
        rows = np.flatnonzero((self.parent >= 0) & ~self._kernels)
        # Only calls of the same thread: those of autograd's threads run beside the caller.
        rows = rows[self.trace.lane[rows] == self.trace.lane[self.parent[rows]]]
        np.subtract.at(dur, self.parent[rows], self.trace.dur[rows])
        return np.where(self.inside, np.maximum(dur, 0), 0)

    @cached_property
    def _kernels(self) -> Bool:
        return self.trace.on_device

    @cached_property
    def _children(self) -> tuple[Int64, Int32]:
        return children_index(self.parent, self.order)

    def children(self, row: int) -> Int32:
        """What the row calls and launches, by start; calls first."""
        first, rows = self._children
        return rows[first[row] : first[row + 1]]

    def path_to_root(self, row: int) -> list[int]:
        """The row and its callers, from the inside out."""
        path = []
        while row >= 0:
            path.append(row)
            row = int(self.parent[row])
        return path

    def descendants(self, row: int) -> Int32:
        """The row and everything below it, level by level."""
        first, rows = self._children
        levels = [np.asarray([row], dtype=np.int32)]
        while len(levels[-1]):
            begin, count = first[levels[-1]], first[levels[-1] + 1] - first[levels[-1]]
            places = np.repeat(begin - (np.cumsum(count) - count), count) + np.arange(
                int(count.sum())
            )
            levels.append(rows[places])
        return np.concatenate(levels)

    def leaves(self, row: int) -> Int32:
        """Those of the descendants that call and launch nothing."""
        first, below = self._children[0], self.descendants(row)
        return np.asarray(below[first[below] == first[below + 1]], dtype=np.int32)


@dataclass(frozen=True)
class FoldedCallStack:
    """All rows that have the same names from the root down: one box of a flame graph, without what
    lies above it."""

    frames: tuple[str, ...]
    """From the outermost call to the row itself; steps of all numbers are one."""
    rows: int
    host_ns: int
    """Own time of the calls; 0 for work on a stream."""
    device_ns: int
    """Length of the work on streams; 0 for calls."""


def folded_stacks(
    stacks: CallStacks, by: Literal["host", "device"] = "device", limit: int = MAX_FOLDED
) -> list[FoldedCallStack]:
    """The stacks with the most time on the host or on the device; those without any are left out.

    Times of different stacks add up: nothing is counted twice.
    """
    box = _boxes(stacks)
    rows = np.flatnonzero(box >= 0)
    rows = rows[np.argsort(stacks.depth[rows], kind="stable")]
    _, first, of = np.unique(box[rows], return_index=True, return_inverse=True)
    kernels = stacks.trace.on_device[rows]
    host, device = np.zeros((2, len(first)), dtype=np.int64)
    np.add.at(host, of[~kernels], stacks.self_ns[rows[~kernels]])
    np.add.at(device, of[kernels], stacks.trace.dur[rows[kernels]])
    counts = np.bincount(of, minlength=len(first))
    chosen = host if by == "host" else device
    order = np.argsort(-chosen, kind="stable")[:limit]
    names = _frame_names(stacks.trace)
    return [
        FoldedCallStack(
            _frames(stacks, names, int(rows[first[i]])),
            int(counts[i]),
            int(host[i]),
            int(device[i]),
        )
        for i in order[chosen[order] > 0].tolist()
    ]


TABLE = RowTable(TEXTS(stack="frames"), INT("rows", "host_ns", "device_ns"))


def rows(trace: TraceColumns) -> Rows:
    """The stacks that took most of the device, or of the host where nothing ran on a device, as
    JSON values."""
    stacks = call_stacks(trace)
    return TABLE.rows(folded_stacks(stacks, "device" if trace.on_device.any() else "host"))


@cached_per_trace
def call_stacks(trace: TraceColumns, *, link_backward: bool = True) -> CallStacks:
    """The forest of one rank's calls. O(n log n); `link_backward` off leaves every thread its own
    tree."""
    calls = np.flatnonzero(~trace.on_device & ~trace.in_category(*NOT_CALLS))
    order = lane_order(calls, trace.lane, len(trace.lanes), trace.ts, trace.dur)
    parent = np.full(len(trace), -1, dtype=np.int32)
    above, overlaps = _enclosing(trace.lane[order], trace.ts[order], trace.end[order])
    called = above >= 0
    parent[order[called]] = order[above[called]]
    if link_backward:
        _link_backward(trace, order, parent)
    launch = launched_by(trace)
    kernels = np.flatnonzero(trace.on_device)
    kernels = kernels[np.argsort(trace.ts[kernels], kind="stable")]
    parent[kernels] = launch[kernels]
    whole = np.concatenate((order, kernels)).astype(np.int32)
    # Forward operators by sequence number, as the profiler's own forward-backward arrows (torch's
    # generateForwardBackwardLinks): of the operators with one number the last to start made the
    # gradient's node.
    forward = np.full(len(trace), -1, dtype=np.int32)
    numbers, threads = (
        trace.arguments.number("Sequence number"),
        trace.arguments.number("Fwd thread id"),
    )
    rows = numbers.rows.astype(np.int64)
    rows, values = rows[numbers.values >= 0], numbers.values[numbers.values >= 0]
    backward = threads.at(rows, 0.0) > 0
    ahead, ahead_number = rows[~backward], values[~backward]
    by_number = np.lexsort((trace.ts[ahead], ahead_number))
    ahead, ahead_number = ahead[by_number], ahead_number[by_number]
    place = np.searchsorted(ahead_number, values[backward], side="right") - 1
    indexes = np.flatnonzero((place >= 0) & (len(ahead) > 0))
    indexes = indexes[ahead_number[place[indexes]] == values[backward][indexes]]
    forward[rows[backward][indexes]] = ahead[place[indexes]]
    return CallStacks(trace, parent, whole, forward, overlaps)


def _enclosing(lane: Int32, start: Int64, end: Int64) -> tuple[Int64, int]:
    """The place of each call's caller among calls by thread; -1 for none.

    A call without length (profilers that count whole microseconds write many) lies in what begins
    or ends at its moment; several of one moment lie in each other, in their order.
    """
    long = np.flatnonzero(end > start)
    inner, overlaps = nesting_parents(lane[long], start[long], end[long])
    parent = np.full(len(lane), -1, dtype=np.int64)
    parent[long] = np.where(inner >= 0, long[inner], -1) if len(long) else inner
    short = np.flatnonzero(end <= start)
    if not len(short):
        return parent, overlaps
    if len(long):
        before = np.searchsorted(long, short) - 1
        is_enclosed = (before >= 0) & (lane[long[before]] == lane[short])
        first = np.where(is_enclosed, before, -1).astype(np.int32)
        around = containing(inner.astype(np.int32), end[long], first, start[short])
        parent[short] = np.where(around >= 0, long[around], -1)
    follows = (np.diff(short) == 1) & (np.diff(start[short]) == 0) & (np.diff(lane[short]) == 0)
    parent[short[1:][follows]] = short[:-1][follows]
    return parent, overlaps


def _link_backward(trace: TraceColumns, order: Int64, parent: Int32) -> None:
    """Outermost calls of autograd's threads move under the innermost call, of the thread that
    waits, around them."""
    autograd = np.asarray([AUTOGRAD in name for name in trace.names], dtype=np.bool_)
    steps = np.asarray(
        [name.startswith(("ProfilerStep#", "## backward ##")) for name in trace.names],
        dtype=np.bool_,
    )
    if not autograd.any() or not steps.any():
        return
    has_steps, has_autograd = np.zeros((2, len(trace.lanes)), dtype=np.bool_)
    has_steps[trace.lane[order[steps[trace.name[order]]]]] = True
    has_autograd[trace.lane[order[autograd[trace.name[order]]]]] = True
    waiting = np.flatnonzero(has_steps)
    main = order[has_steps[trace.lane[order]] & (trace.end[order] > trace.ts[order])]
    # With several such threads nobody knows which one waits.
    if len(waiting) != 1 or not len(main):
        return
    outer = order[(has_autograd & ~has_steps)[trace.lane[order]] & (parent[order] < 0)]
    place = np.full(len(trace), -1, dtype=np.int32)
    place[main] = np.arange(len(main), dtype=np.int32)
    above = np.where(parent[main] >= 0, place[parent[main]], -1).astype(np.int32)
    first = (np.searchsorted(trace.ts[main], trace.ts[outer], side="right") - 1).astype(np.int32)
    around = containing(above, trace.end[main], first, trace.end[outer])
    parent[outer] = np.where(around >= 0, main[around], -1)


def _boxes(stacks: CallStacks) -> Int64:
    """One number for all rows with the same names from the root down; -1 outside the forest."""
    names = _frame_names(stacks.trace)
    number_by_name: dict[str, int] = {}
    frame = np.asarray(
        [number_by_name.setdefault(name, len(number_by_name)) for name in names], dtype=np.int64
    )
    box = np.full(len(stacks.parent), -1, dtype=np.int64)
    # Rows outside the forest sort behind the deepest level that is looked at.
    depth = np.where(stacks.inside, stacks.depth, MAX_FRAMES)
    by_depth = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[by_depth], np.arange(MAX_FRAMES + 1))
    used = 0
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        level = by_depth[begin:end]
        if not len(level):
            break
        above = np.where(stacks.parent[level] >= 0, box[stacks.parent[level]], -1)
        key = (above + 1) * len(names) + frame[stacks.trace.name[level]]
        _, which = np.unique(key, return_inverse=True)
        box[level] = used + which
        used = int(box[level].max()) + 1
    deep = np.flatnonzero(stacks.inside & (box < 0))
    if len(deep):
        box[deep] = box[nearest(stacks.parent, box >= 0)[deep]]
    return box


def _frames(stacks: CallStacks, names: tuple[str, ...], row: int) -> tuple[str, ...]:
    path = stacks.path_to_root(row)[::-1][:MAX_FRAMES]
    return tuple(names[int(stacks.trace.name[r])] for r in path)


def _frame_names(trace: TraceColumns) -> tuple[str, ...]:
    return tuple(
        "ProfilerStep" if name.startswith("ProfilerStep#") else name for name in trace.names
    )
