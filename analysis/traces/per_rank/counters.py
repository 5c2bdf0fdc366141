"""Hardware counters of kernels (CUPTI's range profiler), with the operators that launched them.

Kineto writes one `cuda_profiler_range` event per kernel. Their times are made up (the recorded
window in equal parts) and they have no correlation, so that ranges and launches are paired in
order; a pairing that does not come out even is refused with its reason, and the counters stand
without operators. After HTA's `get_cupti_counter_data_with_operators`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.device import on_runtime
from faultline.analysis.traces.columns.events import COUNTER_CATEGORY, Bool, Int64, TraceColumns
from faultline.analysis.traces.columns.row_table import INT, TEXT, TEXTS, Rows, RowTable
from faultline.analysis.traces.per_rank.call_stacks import (
    CallStacks,
    call_stacks,
    nearest,
    outermost,
)
from faultline.analysis.traces.per_rank.operators import OPERATOR_CATEGORIES

MAX_STACK = 64
"""Most kernels given as JSON, and most operators named of each."""

FLOPS_PER_INSTRUCTION = {
    f"smsp__sass_thread_inst_executed_op_{operation}_pred_on.sum": 2 if "fma" in operation else 1
    for operation in ("hadd", "hmul", "hfma", "fadd", "fmul", "ffma", "dadd", "dmul", "dfma")
}
"""A fused multiply-add is two operations (HTA's CUDA_SASS_INSTRUCTION_COUNTER_FLOPS; Nsight
Compute's roofline). Work on tensor cores is counted by none of these."""

KERNEL_LAUNCH = re.compile(
    r"^(cuda|cu|hip)[A-Za-z]*Launch[A-Za-z]*Kernel|^cudaLaunchKernelExC|^hipLaunchKernel"
)
"""Calls that launch one kernel each; graphs launch many."""


@dataclass(frozen=True)
class KernelCounters:
    """The ranges of one trace in order of time, and what was counted in each."""

    rows: Int64
    """Row of each range; its name is the kernel's."""
    launches: Int64
    """Row of the call that launched it; -1 where unknown."""
    operators: tuple[tuple[str, ...], ...]
    """Operators around the launch, from the outermost."""
    counters: Mapping[str, NDArray[np.float64]]
    """By counter, one value per range; NaN where a range has none."""
    reason: str = ""
    """Why ranges have no launch; "" where all have."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def flops(self) -> NDArray[np.float64] | None:
        """Floating point operations by range; None where none of the instructions was counted."""
        counted = [name for name in FLOPS_PER_INSTRUCTION if name in self.counters]
        if not counted:
            return None
        parts = [
            np.nan_to_num(self.counters[name]) * FLOPS_PER_INSTRUCTION[name] for name in counted
        ]
        return np.asarray(np.sum(parts, axis=0))


def kernel_counters(trace: TraceColumns, stacks: CallStacks | None = None) -> KernelCounters:
    """All ranges with their counters and, where they can be paired with launches, their
    operators."""
    ranges = np.flatnonzero(trace.in_category(COUNTER_CATEGORY))
    ranges = ranges[np.argsort(trace.ts[ranges], kind="stable")]
    if not len(ranges):
        none = np.empty(0, dtype=np.int64)
        return KernelCounters(
            none, none, (), {}, "the trace has no ranges of counters (CUPTI range profiler)"
        )
    stacks = stacks or call_stacks(trace)
    launches, reason = _launches_of(trace, stacks, ranges)
    by_row = np.argsort(ranges, kind="stable")
    values = {}
    for name, numbers in trace.arguments.numbers.items():
        column = np.full(len(ranges), np.nan)
        column[by_row] = numbers.at(ranges[by_row], np.nan)
        if np.isfinite(column).any():
            values[name] = column
    # From the outermost operator inwards; of more than MAX_STACK the inner ones, below the
    # outermost.
    operator = trace.in_category(*OPERATOR_CATEGORIES)
    inner, outer = nearest(stacks.parent, operator), outermost(stacks.parent, operator)
    above = np.where(stacks.parent >= 0, inner[stacks.parent], -1)
    names: dict[int, tuple[str, ...]] = {-1: ()}
    starts = np.where(launches >= 0, inner[launches], -1).tolist()
    for start in starts:
        if start in names:
            continue
        path = [row := start]
        while (row := int(above[row])) >= 0 and len(path) < MAX_STACK:
            path.append(row)
        path[-1] = int(outer[start])
        names[start] = tuple(trace.name_of(row) for row in reversed(path))
    return KernelCounters(ranges, launches, tuple(names[start] for start in starts), values, reason)


TABLE = RowTable(
    TEXT("kernel"),
    INT("event"),
    TEXTS("operators"),
    TEXT("top_operator", "bottom_operator"),
    INT("flops"),
)


def rows(trace: TraceColumns) -> Rows:
    """Ranges with their counters as JSON values, those with most floating point operations
    first."""
    counters = kernel_counters(trace)
    flops = counters.flops
    order = np.argsort(-flops, kind="stable") if flops is not None else np.arange(len(counters))
    return [_row(trace, counters, flops, i) for i in order.tolist()]


def _row(
    trace: TraceColumns, counters: KernelCounters, flops: NDArray[np.float64] | None, place: int
) -> dict[str, Any]:
    operators = counters.operators[place]
    row = TABLE.row(
        kernel=trace.name_of(int(counters.rows[place])),
        event=trace.event[counters.rows[place]],
        operators=operators,
        top_operator=operators[0] if operators else None,
        bottom_operator=operators[-1] if operators else None,
    )
    if flops is not None:
        row |= TABLE.row(flops=flops[place])
    row |= {
        name: float(values[place])
        for name, values in counters.counters.items()
        if np.isfinite(values[place])
    }
    return row | (
        {"no_operator_because": counters.reason} if counters.reason and not operators else {}
    )


def _launches_of(trace: TraceColumns, stacks: CallStacks, ranges: Int64) -> tuple[Int64, str]:
    """By correlation where the ranges have one, else in order of time, where the numbers are
    equal."""
    by_correlation = np.full(len(ranges), -1, dtype=np.int64)
    calls = np.flatnonzero(on_runtime(trace) & (trace.correlation > 0))
    if len(calls):
        calls = calls[np.argsort(trace.correlation[calls], kind="stable")]
        place = (
            np.searchsorted(trace.correlation[calls], trace.correlation[ranges], side="right") - 1
        )
        hit = (place >= 0) & (trace.correlation[calls[place]] == trace.correlation[ranges])
        by_correlation[hit] = calls[place[hit]]
    if (by_correlation >= 0).all():
        return by_correlation, ""
    # Kernel launches by time; a launch inside a launch (the driver's, in the runtime's) is the same
    # one.
    launch = np.asarray(
        [KERNEL_LAUNCH.match(name) is not None for name in trace.names], dtype=np.bool_
    )
    launch_mask: Bool = on_runtime(trace) & launch[trace.name]
    above = np.where(stacks.parent >= 0, nearest(stacks.parent, launch_mask)[stacks.parent], -1)
    indexes = np.flatnonzero(launch_mask & (above < 0))
    all_launches = np.asarray(indexes[np.argsort(trace.ts[indexes], kind="stable")], dtype=np.int64)
    begin, end = int(trace.ts[ranges].min()), int(trace.end[ranges].max())
    inside = all_launches[(trace.end[all_launches] > begin) & (trace.ts[all_launches] < end)]
    for launches in (all_launches, inside):
        if len(launches) == len(ranges):
            return launches, ""
    shown = f"{len(ranges)} ranges of counters and {len(all_launches)} kernel launches"
    also = (
        f" ({len(inside)} of them in the ranges' time)" if len(inside) != len(all_launches) else ""
    )
    return by_correlation, f"{shown}{also} cannot be paired in order"
