"""Calls in which the host waits for the accelerator, and which operators made them.

Waits that belong to nobody's code are left out: the profiler's own last synchronisation, and those
of the data loader. A waiting host is no trouble by itself while the accelerator works. It costs the
time in which the accelerator then has nothing to do, until the next kernel starts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import on_runtime
from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
from faultline.analysis.traces.columns.intervals import difference, length, union
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable
from faultline.analysis.traces.doctor.diagnosis import EventReference
from faultline.analysis.traces.per_rank.data_loading import loader_rows
from faultline.analysis.traces.per_rank.step_times import StepWindow, longest, window_of

SYNC_CALL = re.compile(
    r"^(?:cuda|hip|cu|mtia)(?:Stream|Device|Event|Ctx|Context|Thread)Synchronize(?:_ptsz)?$|^"
    r"(?:cuda|hip)Memcpy(?:_ptds)?$"
    r"|^hipMemcpyWithStream$|^cuMemcpy(?:DtoH|HtoD)(?:_v2)?$"
)
"""Calls that return only when the accelerator is done (CUDA and HIP runtime and driver APIs)."""
READS = (
    "aten::item",
    "aten::_local_scalar_dense",
    "aten::is_nonzero",
    "aten::nonzero",
    "aten::masked_select",
)
"""Operators that need a value, or a size, on the host."""
OPERATORS = (
    *READS,
    "aten::equal",
    "aten::_unique2",
    "aten::repeat_interleave",
    "aten::index",
    "aten::to",
    "aten::_to_copy",
    "aten::copy_",
)
"""Operators known to wait, the most telling first."""


@dataclass(frozen=True)
class HostSyncs:
    """Waits of the host for the accelerator in the window's steps."""

    count: int
    ns: int
    share: float
    """Of the window."""
    idle_after_ns: int
    """Time from the end of a wait until the accelerator has work again, where it had none then;
    loading left out."""
    by_operator: tuple[tuple[str, int], ...]
    """Operators that waited and how often, the most frequent first; "" for calls outside any known
    operator."""
    reads: int
    """`aten::item` and `aten::nonzero` called in the window, also those on tensors of the host."""
    longest: tuple[EventReference, ...]
    read_events: tuple[EventReference, ...]


def host_syncs(trace: TraceColumns, window: StepWindow | None = None) -> HostSyncs:
    """The rank's waits. Thresholds over them: nsys-ai's sync density."""
    window = window or window_of(trace)
    rows = sync_rows(trace, window)
    spent = window.time_in(trace.ts[rows], trace.end[rows])
    reads = trace.rows_named(lambda name: name in ("aten::item", "aten::nonzero"))
    reads = reads[window.holds(trace)[reads]]
    left = rows
    counts: dict[str, int] = {}
    # The most telling operator comes first, and each wait counts once.
    for operator in OPERATORS:
        # `target` binds the operator now: a closure would see the loop's last one.
        calls = trace.rows_named(lambda name, target=operator: name == target)  # type: ignore[misc]
        if not len(calls) or not len(left):
            continue
        place = np.maximum(np.searchsorted(trace.ts[calls], trace.ts[left], side="right") - 1, 0)
        call = calls[place]
        is_inside = (trace.ts[call] <= trace.ts[left]) & (trace.ts[left] < trace.end[call])
        is_inside &= trace.lane[call] == trace.lane[left]
        if is_inside.any():
            counts[operator] = int(is_inside.sum())
        left = left[~is_inside]
    if len(left):
        counts[""] = len(left)
    return HostSyncs(
        count=len(rows),
        ns=spent,
        share=window.share(spent),
        idle_after_ns=_idle_after(trace, window, rows),
        by_operator=tuple(sorted(counts.items(), key=lambda pair: -pair[1])),
        reads=len(reads),
        longest=longest(trace, rows, window.steps),
        read_events=longest(trace, reads, window.steps),
    )


def sync_rows(trace: TraceColumns, window: StepWindow) -> Int64:
    """Waits that start in the window, by start, without the profiler's own and the loader's."""
    rows = trace.rows_named(lambda name: SYNC_CALL.match(name) is not None)
    rows = rows[(on_runtime(trace) & window.holds(trace))[rows]]
    loader = loader_rows(trace, window)
    spans = union(trace.ts[loader], trace.end[loader])
    if not len(rows) or not len(spans[0]):
        inside = np.zeros(len(rows), dtype=np.bool_)
    else:
        place = np.maximum(np.searchsorted(spans[0], trace.ts[rows], side="right") - 1, 0)
        inside = np.asarray(
            (spans[0][place] <= trace.ts[rows]) & (trace.ts[rows] < spans[1][place]), dtype=np.bool_
        )
    return np.asarray(rows[~inside & ~_from_profiler(trace, rows)], dtype=np.int64)


def _from_profiler(trace: TraceColumns, rows: Int64) -> Bool:
    """The whole-device waits after the last launch: the profiler makes one when it stops."""
    device = trace.rows_named(lambda name: "DeviceSynchronize" in name)
    launches = trace.ts[on_runtime(trace) & ~np.isin(np.arange(len(trace)), device)]
    last = int(launches.max()) if len(launches) else 0
    return np.asarray(np.isin(rows, device) & (trace.ts[rows] >= last), dtype=np.bool_)


def _idle_after(trace: TraceColumns, window: StepWindow, rows: Int64) -> int:
    """Idle time of the accelerator that begins in, or goes on after, a wait of the host, without
    that in which the host loads data: the loader costs that."""
    device = trace.on_device
    starts, ends = window.clipped(trace.ts[device], trace.end[device])
    if not len(rows) or len(starts) < 2:
        return 0
    gap_start, gap_end = ends[:-1], starts[1:]
    place = np.minimum(np.searchsorted(gap_end, trace.end[rows], side="right"), len(gap_end) - 1)
    begun = (gap_start[place] <= trace.end[rows]) & (trace.end[rows] < gap_end[place])
    # Several waits may end in one gap: count it once.
    idle = union(trace.end[rows][begun], gap_end[place][begun])
    loader = loader_rows(trace, window)
    return length(difference(idle, union(trace.ts[loader], trace.end[loader])))


TABLE = RowTable(TEXT("call"), INT("count", "total_ns", "longest_ns"))


def rows(trace: TraceColumns) -> Rows:
    """Waits by name of the call, as JSON rows, the longest sum first."""
    by_name = trace.by_name(sync_rows(trace, window_of(trace)))
    durations = ((name, trace.dur[call_rows]) for name, call_rows in by_name)
    rows = TABLE.of((name, len(ns), ns.sum(), ns.max()) for name, ns in durations)
    return sorted(rows, key=lambda row: -int(row["total_ns"]))
