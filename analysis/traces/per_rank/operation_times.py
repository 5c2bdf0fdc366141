"""Self time of one rank's operations in each step: the time an event runs without the events inside
it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import Kind
from faultline.analysis.traces.columns.events import Bool, Int32, Int64, TraceColumns
from faultline.analysis.traces.columns.steps import PHASES, StepColumns, is_step
from faultline.analysis.traces.native.device_work import nesting_parents
from faultline.analysis.traces.native.lane import lane_order
from faultline.analysis.traces.per_rank.collective_names import (
    is_call,
    is_collective_on_host,
    is_launch,
)
from faultline.analysis.traces.readable import distinct_name

MAX_NAMES = 96
MAX_NUMBERS = 16_384
"""Names times steps (our choice: about 100 KB as JSON)."""


MAX_NAME = 200


@dataclass(frozen=True, eq=False)
class LongestEvents:
    """Of each step the event with the most self time, communication aside: columns by step.

    Where nothing was recorded for long, that is the annotation around it, of a phase or of the step
    itself.
    """

    step: Int64
    """Step numbers."""
    event: Int64
    """Position in the file's list of events."""
    start: Int64
    end: Int64
    name: Int64
    """Index into `names`."""
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class OperationTimes:
    """The operations with the most self time in any one step."""

    names: tuple[str, ...]
    steps: Int64
    """Step numbers."""
    self_ns: Int64
    """One row per name, one column per step."""
    longest: LongestEvents
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
    # Take few enough steps to leave room for 16 names.
    count = max(1, min(len(steps), MAX_NUMBERS // 16))
    remaining_steps = steps.first(count)
    step = remaining_steps.position_of(trace.ts)
    if on_device is not None:
        step = np.where(trace.on_device, on_device.first(count).position_of(trace.ts), step)
    copied = trace.in_category("gpu_user_annotation", "trace", "overhead")
    rows = np.flatnonzero((step >= 0) & ~copied)
    self_ns = self_times(trace, rows)
    working = (kind[rows] != Kind.COMMUNICATION) & ~_named(trace, rows, _waits_for_peers)
    rows, self_ns = rows[working], self_ns[working]
    longest = _longest_events(trace, rows, self_ns, step[rows], remaining_steps)
    counted = ~_named(trace, rows, _is_frame)
    rows, self_ns = rows[counted], self_ns[counted]
    width = max(len(remaining_steps), 1)
    cells, cell = np.unique(
        trace.name[rows].astype(np.int64) * width + step[rows], return_inverse=True
    )
    spent = np.zeros(len(cells), dtype=np.int64)
    np.add.at(spent, cell, self_ns)
    names, first = np.unique(cells // width, return_index=True)
    most = np.maximum.reduceat(spent, first) if len(names) else spent
    top = np.argsort(-most, kind="stable")[: min(MAX_NAMES, MAX_NUMBERS // width)]
    table = np.zeros((len(top), width), dtype=np.int64)
    for row, name in enumerate(names[top].tolist()):
        name_cells = slice(
            first[top[row]], first[top[row] + 1] if top[row] + 1 < len(first) else len(cells)
        )
        table[row, cells[name_cells] - name * width] = spent[name_cells]
    return OperationTimes(
        names=tuple(distinct_name(trace.names[i], MAX_NAME) for i in names[top].tolist()),
        steps=remaining_steps.number,
        self_ns=table[:, : len(remaining_steps)],
        longest=longest,
        cut=len(names) - len(top),
    )


def self_times(trace: TraceColumns, rows: Int64) -> Int64:
    """ns of each of the rows without what lies directly inside it on the same thread or stream."""
    order = lane_order(rows, trace.lane, len(trace.lanes), trace.ts, trace.dur)
    starts, ends = trace.ts[order], trace.end[order]
    parent, _ = nesting_parents(trace.lane[order], starts, ends)
    inside = np.flatnonzero(parent >= 0)
    self_ns = ends - starts
    spent = np.minimum(ends[inside], ends[parent[inside]]) - starts[inside]
    np.subtract.at(self_ns, parent[inside], spent)
    by_row = np.zeros(len(trace), dtype=np.int64)
    # Events that overlap may take off more than an event's length.
    by_row[order] = np.maximum(self_ns, 0)
    return by_row[rows]


def _longest_events(
    trace: TraceColumns, rows: Int64, self_ns: Int64, place: Int64, steps: StepColumns
) -> LongestEvents:
    """`self_ns` is the self time of each row, `place` that of its step in `steps`."""
    longest_rows = np.full(len(steps), -1, dtype=np.int64)
    # Of several rows with the same step the last one stays, the longest.
    order = np.argsort(self_ns, kind="stable")
    longest_rows[place[order]] = rows[order]
    indexes = np.flatnonzero(longest_rows >= 0)
    longest_rows = longest_rows[indexes]
    used, name = np.unique(trace.name[longest_rows], return_inverse=True)
    return LongestEvents(
        step=steps.number[indexes],
        event=trace.event[longest_rows].astype(np.int64),
        start=trace.ts[longest_rows],
        end=trace.end[longest_rows],
        name=name.astype(np.int64),
        names=tuple(distinct_name(trace.names[i], MAX_NAME) for i in used.tolist()),
    )


def _named(trace: TraceColumns, rows: Int64, chosen: Callable[[str], bool]) -> Bool:
    """Mask of the rows whose names are chosen."""
    used = trace.names_of(rows)
    by_name = np.zeros(len(trace.names) + 1, dtype=np.bool_)
    by_name[used] = [chosen(trace.names[i]) for i in used.tolist()]
    return np.asarray(by_name[trace.name[rows]], dtype=np.bool_)


def _waits_for_peers(name: str) -> bool:
    return (
        is_collective_on_host(name)
        or is_launch(name)
        or is_call(name)
        or name.startswith(("FSDP::", "_c10d_functional::"))
        or name == "record_param_comms"
    )


def _is_frame(name: str) -> bool:
    return is_step(name) or any(pattern.match(name) for pattern in PHASES.values())
