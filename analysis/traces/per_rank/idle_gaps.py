"""The longest times in which nothing ran on the accelerator, and what the host was doing meanwhile.

People who see a hole in a timeline ask what the CPU did in it: here is each call's own time inside
the hole, first of the thread that launched the work which ended it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import device_work, launches_of
from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
from faultline.analysis.traces.columns.intervals import clip, self_times, total, union
from faultline.analysis.traces.columns.row_table import BOOL, INT, TEXT, Rows, RowTable
from faultline.analysis.traces.per_rank.idle import (
    CATEGORIES,
    CONSECUTIVE_KERNEL_DELAY_NS,
    gap_category,
)

NOT_ON_HOST = ("gpu_user_annotation", "cuda_sync", "cuda_event", "trace")
GAPS, CALLS = 10, 5


@dataclass(frozen=True)
class HostCall:
    """What one thread spent time in during a gap."""

    name: str
    category: str
    thread: tuple[str, str]
    """(pid, tid) as the trace writes them."""
    launching: bool
    """Whether the thread launched the work that ended the gap."""
    self_ns: int
    """Inside the gap, without what it called."""
    row: int
    """Row of the longest such call."""


@dataclass(frozen=True)
class DeviceGap:
    """A time in which no stream of the rank's accelerators had work."""

    begin_ns: int
    end_ns: int
    category: str
    """One of `idle.CATEGORIES`."""
    previous_row: int
    """The work that ended last before it."""
    next_row: int
    """The work that ended it."""
    launch_row: int
    """The call that launched that; -1 where unknown."""
    host: tuple[HostCall, ...]
    """The launching thread's calls first, each thread's by own time."""
    unrecorded_ns: int
    """Time in which the launching thread (where unknown: every thread) has no event."""

    @property
    def duration_ns(self) -> int:
        """Length of the gap."""
        return self.end_ns - self.begin_ns


def longest_gaps(
    trace: TraceColumns, count: int = GAPS, calls: int = CALLS
) -> tuple[DeviceGap, ...]:
    """The longest gaps between the first and the last work, longest first; `calls` per gap.
    O(events x count)."""
    work = device_work(trace)
    starts, ends = union(work.start, work.end)
    if len(starts) < 2:
        return ()
    begin, end = ends[:-1], starts[1:]
    # Begin minus end is the negative length: the longest come first.
    chosen = np.argsort(begin - end, kind="stable")[:count]
    by_end = np.argsort(work.end, kind="stable")
    next_rows = work.row[np.searchsorted(work.start, end[chosen])]
    previous_rows = work.row[
        by_end[np.searchsorted(work.end[by_end], begin[chosen], side="right") - 1]
    ]
    launches = launches_of(trace, next_rows)
    categories = gap_category(
        trace, begin[chosen], end[chosen], launches, CONSECUTIVE_KERNEL_DELAY_NS
    )
    host = np.flatnonzero(~trace.on_device & ~trace.in_category(*NOT_ON_HOST) & (trace.dur > 0))
    device_gaps = []
    for place, gap in enumerate(chosen.tolist()):
        bounds = int(begin[gap]), int(end[gap])
        rows = _nested(trace, host[(trace.ts[host] < bounds[1]) & (trace.end[host] > bounds[0])])
        launch = int(launches[place])
        launching = (
            np.asarray(trace.lane[rows] == trace.lane[launch])
            if launch >= 0
            else np.zeros(len(rows), dtype=np.bool_)
        )
        # Where the launching thread is unknown or silent, all threads count.
        row = rows[launching] if launching.any() else rows
        recorded = total(*clip(trace.ts[row], trace.end[row], *bounds))
        device_gaps.append(
            DeviceGap(
                begin_ns=bounds[0],
                end_ns=bounds[1],
                category=CATEGORIES[int(categories[place])],
                previous_row=int(previous_rows[place]),
                next_row=int(next_rows[place]),
                launch_row=launch,
                host=_calls(trace, rows, launching, bounds)[:calls],
                unrecorded_ns=bounds[1] - bounds[0] - recorded,
            )
        )
    return tuple(device_gaps)


TABLE = RowTable(
    INT("begin_ns", "gap_ns"),
    TEXT("category", "before", "after"),
    INT("unrecorded_ns"),
    TEXT("host_call", "thread"),
    BOOL("launching"),
    INT("self_ns"),
)


def rows(trace: TraceColumns) -> Rows:
    """One row per gap and call of the host."""
    table: Rows = []
    for gap in longest_gaps(trace):
        row = TABLE.row(
            begin_ns=gap.begin_ns,
            gap_ns=gap.duration_ns,
            category=gap.category,
            before=trace.name_of(gap.previous_row),
            after=trace.name_of(gap.next_row),
            unrecorded_ns=gap.unrecorded_ns,
        )
        for call in gap.host:
            table.append(
                row
                | TABLE.row(
                    host_call=call.name,
                    thread=call.thread[1],
                    launching=call.launching,
                    self_ns=call.self_ns,
                )
            )
        if not gap.host:
            table.append(row)
    return table


def _nested(trace: TraceColumns, rows: Int64) -> Int64:
    """Outer calls before inner ones, so that the order still tells them apart once they are cut to
    the gap."""
    return rows[np.lexsort((-trace.end[rows], trace.ts[rows]))]


def _calls(
    trace: TraceColumns, rows: Int64, launching: Bool, bounds: tuple[int, int]
) -> tuple[HostCall, ...]:
    starts, ends = np.maximum(trace.ts[rows], bounds[0]), np.minimum(trace.end[rows], bounds[1])
    spent = self_times(starts, ends, trace.lane[rows])
    key = trace.lane[rows] * np.int64(len(trace.names)) + trace.name[rows]
    keys, group = np.unique(key, return_inverse=True)
    sums = np.zeros(len(keys), dtype=np.int64)
    np.add.at(sums, group, spent)
    by_time = np.argsort(spent, kind="stable")
    longest = np.zeros(len(keys), dtype=np.int64)
    # Assigned in order of time spent, so the longest call of each key stays.
    longest[group[by_time]] = by_time
    order = np.lexsort((-sums, ~launching[longest]))
    order = order[sums[order] > 0]
    return tuple(
        _call(trace, int(rows[longest[k]]), bool(launching[longest[k]]), int(sums[k]))
        for k in order[:100]
    )


def _call(trace: TraceColumns, row: int, launching: bool, spent: int) -> HostCall:
    thread = trace.lanes[int(trace.lane[row])]
    return HostCall(trace.name_of(row), trace.category_of(row), thread, launching, spent, row)
