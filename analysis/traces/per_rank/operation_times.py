"""Self time of one rank's operations in each step: the time an event runs without the events inside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.traces.columns import Int64, TraceColumns
from analysis.traces.device import is_communication_kernel
from analysis.traces.native.nesting import nesting_parents
from analysis.traces.per_rank.collective_names import is_collective_on_host, is_launch
from analysis.traces.steps import PHASES, Steps, is_step

MAX_NAMES = 96
MAX_NUMBERS = 16_384
"""Names times steps (own: about 100 KB as JSON)."""


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


def operation_times(trace: TraceColumns, steps: Steps) -> OperationTimes:
    """Self times on threads and streams; steps, phases and collectives are told elsewhere. O(events log events)."""
    count = max(1, min(len(steps), MAX_NUMBERS // 16))
    kept = steps.first(count)
    step = kept.position_of(trace.ts)
    copied = trace.in_category("gpu_user_annotation", "trace", "overhead")
    rows = np.flatnonzero((step >= 0) & ~copied)
    own = self_times(trace, rows)
    told = np.asarray([not _is_frame(name) for name in trace.names], dtype=np.bool_)
    counted = told[trace.name[rows]] if len(rows) else np.zeros(0, dtype=np.bool_)
    names, column = np.unique(trace.name[rows[counted]], return_inverse=True)
    table = np.zeros((len(names), max(len(kept), 1)), dtype=np.int64)
    np.add.at(table, (column, step[rows[counted]]), own[counted])
    most = min(MAX_NAMES, MAX_NUMBERS // max(len(kept), 1))
    order = np.argsort(-table.max(axis=1), kind="stable")[:most] if len(names) else np.empty(0, dtype=np.int64)
    return OperationTimes(
        names=tuple(trace.names[i] for i in names[order].tolist()),
        steps=kept.number,
        self_ns=table[order][:, : len(kept)],
        cut=len(names) - len(order),
    )


def self_times(trace: TraceColumns, rows: Int64) -> Int64:
    """ns of each of the rows without what lies directly inside it on the same thread or stream."""
    order = rows[np.lexsort((-trace.dur[rows], trace.ts[rows], trace.lane[rows]))]
    starts, ends = trace.ts[order], trace.end[order]
    parent, _ = nesting_parents(trace.lane[order], starts, ends)
    inside = np.flatnonzero(parent >= 0)
    own = ends - starts
    spent = np.minimum(ends[inside], ends[parent[inside]]) - starts[inside]
    np.subtract.at(own, parent[inside], spent)
    by_row = np.zeros(len(trace), dtype=np.int64)
    by_row[order] = np.maximum(own, 0)
    return by_row[rows]


def _is_frame(name: str) -> bool:
    return (
        is_step(name)
        or is_collective_on_host(name)
        or is_launch(name)
        or is_communication_kernel(name)
        or any(p.match(name) for p in PHASES.values())
    )
