"""How much of a rank's steps its accelerator worked, its long gaps, and time in which the launch
queue was full."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.columns.intervals import total
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable, rounded
from faultline.analysis.traces.doctor.diagnosis import EventReference
from faultline.analysis.traces.per_rank.launch_queue import FULL_QUEUE, queue_length
from faultline.analysis.traces.per_rank.step_times import StepWindow, event_reference, window_of

LONG_GAP_NS = 1_000_000
"""1 ms (nsys-ai)."""
HUGE_GAP_NS = 500_000_000
"""500 ms (Nsight Systems' rule gpu_gaps)."""


@dataclass(frozen=True)
class DeviceUse:
    """The accelerator in the window's steps."""

    busy_ns: int
    busy_share: float
    """Any kernel, copy or fill, of the window; 0 without an accelerator."""
    long_gaps: int
    long_gap_ns: int
    huge_gaps: int
    longest_gap_ns: int
    in_gap: EventReference | None
    """What the host did for most of the longest gap."""
    full_queue_ns: int
    """Time with FULL_QUEUE launches outstanding on a stream."""
    most_outstanding: int


def device_use(trace: TraceColumns, window: StepWindow | None = None) -> DeviceUse:
    """Busy time, gaps and the launch queue of the rank's accelerator."""
    window = _host_window(window or window_of(trace))
    device = np.flatnonzero(trace.on_device)
    starts, ends = window.clipped(trace.ts[device], trace.end[device])
    busy = int((ends - starts).sum())
    # Clipped intervals are disjoint and in order, so gaps lie between neighbours.
    gap_start, gap_end = ends[:-1], starts[1:]
    gaps = gap_end - gap_start
    long = gaps >= LONG_GAP_NS
    widest = int(gaps.argmax()) if len(gaps) else -1
    full, most = _queue(trace)
    return DeviceUse(
        busy_ns=busy,
        busy_share=window.share(busy),
        long_gaps=int(long.sum()),
        long_gap_ns=int(gaps[long].sum()),
        huge_gaps=int((gaps >= HUGE_GAP_NS).sum()),
        longest_gap_ns=int(gaps[widest]) if widest >= 0 else 0,
        in_gap=_host_in(trace, window, int(gap_start[widest]), int(gap_end[widest]))
        if widest >= 0
        else None,
        full_queue_ns=full,
        most_outstanding=most,
    )


def _host_window(window: StepWindow) -> StepWindow:
    """Without what runs on after the last step: there nobody launches any more."""
    return replace(window, end=int(window.steps.end.max())) if window.has_steps else window


def _host_in(
    trace: TraceColumns, window: StepWindow, begin: int, end: int
) -> EventReference | None:
    """The shortest event of the host that fills at least half of the gap."""
    shared = np.minimum(trace.end, end) - np.maximum(trace.ts, begin)
    host = ~trace.on_device & ~trace.in_category("gpu_user_annotation", "trace", "overhead")
    rows = np.flatnonzero(host & (shared * 2 >= end - begin))
    return (
        event_reference(trace, int(rows[trace.dur[rows].argmin()]), window.steps)
        if len(rows)
        else None
    )


def _queue(trace: TraceColumns) -> tuple[int, int]:
    """Time in which a stream had a full queue, and the most launches outstanding on one; a graph is
    one launch."""
    queue = queue_length(trace)
    full = queue.length >= FULL_QUEUE
    # Streams that are full at once count once.
    spent = total(queue.time[full], queue.until[full]) if full.any() else 0
    return spent, int(queue.length.max(initial=0))


TABLE = RowTable(
    INT("busy_ns"),
    rounded(2, "busy_percent"),
    INT("long_gaps", "long_gaps_ns", "longest_gap_ns"),
    TEXT("in_longest_gap"),
    INT("full_queue_ns", "most_outstanding_launches"),
)


def rows(trace: TraceColumns) -> Rows:
    """The accelerator's use over the steps, as one JSON row."""
    use = device_use(trace)
    row = TABLE.row(
        busy_ns=use.busy_ns,
        busy_percent=100 * use.busy_share,
        long_gaps=use.long_gaps,
        long_gaps_ns=use.long_gap_ns,
        longest_gap_ns=use.longest_gap_ns,
        in_longest_gap=use.in_gap.name if use.in_gap else None,
        full_queue_ns=use.full_queue_ns,
        most_outstanding_launches=use.most_outstanding,
    )
    return [row]
