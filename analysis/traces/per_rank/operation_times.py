"""Self time of one rank's operations in each step: the time an event runs without the events inside
it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.traces.columns.device import Kind
from analysis.traces.columns.events import Bool, Int32, Int64, TraceColumns
from analysis.traces.columns.steps import PHASES, StepColumns, is_step
from analysis.traces.native.lane_order import lane_order
from analysis.traces.native.nesting import nesting_parents
from analysis.traces.per_rank.collective_names import is_call, is_collective_on_host, is_launch
from analysis.traces.readable import told_apart

MAX_NAMES = 96
MAX_NUMBERS = 16_384
"""Names times steps (our choice: about 100 KB as JSON)."""


MAX_NAME = 200


@dataclass(frozen=True, eq=False)
class OperationTimes:
    """The operations with the most self time in any one step."""

    names: tuple[str, ...]
    steps: Int64
    """Step numbers."""
    self_ns: Int64
    """One row per name, one column per step."""
    cut: int = 0
    """How many names more there were."""

    def per_step(self, steps: set[int] | None = None) -> dict[str, float]:
        """Mean ns per step by name, over these steps or all."""
        columns = [i for i, n in enumerate(self.steps.tolist()) if steps is None or n in steps]
        if not columns or not len(self.names):
            return {}
        return dict(zip(self.names, self.self_ns[:, columns].mean(axis=1).tolist(), strict=True))


def operation_times(
    trace: TraceColumns, steps: StepColumns, kind: Int32, on_device: StepColumns | None = None
) -> OperationTimes:
    """Self times on threads and streams; steps, phases and collectives are reported elsewhere.

    `kind` of every row is as `kinds` gives it; `on_device` are the steps as the accelerator worked
    them off, to which its kernels belong. O(events log events).
    """
    count = max(1, min(len(steps), MAX_NUMBERS // 16))
    kept = steps.first(count)
    step = kept.position_of(trace.ts)
    if on_device is not None:
        step = np.where(trace.on_device, on_device.first(count).position_of(trace.ts), step)
    copied = trace.in_category("gpu_user_annotation", "trace", "overhead")
    rows = np.flatnonzero((step >= 0) & ~copied)
    own = self_times(trace, rows)
    counted = ~_frames(trace, rows) & (kind[rows] != Kind.COMMUNICATION)
    rows, own = rows[counted], own[counted]
    width = max(len(kept), 1)
    cells, cell = np.unique(
        trace.name[rows].astype(np.int64) * width + step[rows], return_inverse=True
    )
    spent = np.zeros(len(cells), dtype=np.int64)
    np.add.at(spent, cell, own)
    names, first = np.unique(cells // width, return_index=True)
    most = np.maximum.reduceat(spent, first) if len(names) else spent
    top = np.argsort(-most, kind="stable")[: min(MAX_NAMES, MAX_NUMBERS // width)]
    table = np.zeros((len(top), width), dtype=np.int64)
    for row, name in enumerate(names[top].tolist()):
        own_cells = slice(
            first[top[row]], first[top[row] + 1] if top[row] + 1 < len(first) else len(cells)
        )
        table[row, cells[own_cells] - name * width] = spent[own_cells]
    return OperationTimes(
        names=tuple(told_apart(trace.names[i], MAX_NAME) for i in names[top].tolist()),
        steps=kept.number,
        self_ns=table[:, : len(kept)],
        cut=len(names) - len(top),
    )


def self_times(trace: TraceColumns, rows: Int64) -> Int64:
    """ns of each of the rows without what lies directly inside it on the same thread or stream."""
    order = lane_order(rows, trace.lane, len(trace.lanes), trace.ts, trace.dur)
    starts, ends = trace.ts[order], trace.end[order]
    parent, _ = nesting_parents(trace.lane[order], starts, ends)
    inside = np.flatnonzero(parent >= 0)
    own = ends - starts
    spent = np.minimum(ends[inside], ends[parent[inside]]) - starts[inside]
    np.subtract.at(own, parent[inside], spent)
    by_row = np.zeros(len(trace), dtype=np.int64)
    by_row[order] = np.maximum(own, 0)
    return by_row[rows]


def _frames(trace: TraceColumns, rows: Int64) -> Bool:
    used = trace.names_of(rows)
    frames = np.zeros(len(trace.names) + 1, dtype=np.bool_)
    frames[used] = [_is_frame(trace.names[i]) for i in used.tolist()]
    return np.asarray(frames[trace.name[rows]], dtype=np.bool_)


def _is_frame(name: str) -> bool:
    told = (
        is_step(name)
        or is_collective_on_host(name)
        or is_launch(name)
        or is_call(name)
        or _holds_waiting(name)
    )
    return told or any(p.match(name) for p in PHASES.values())


def _holds_waiting(name: str) -> bool:
    return name.startswith(("FSDP::", "_c10d_functional::")) or name == "record_param_comms"
