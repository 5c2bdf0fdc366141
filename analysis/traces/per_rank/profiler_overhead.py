"""What the profiler itself cost in a rank's steps, and what makes a capture unfit to judge by."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.columns.intervals import clip, union
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable
from faultline.analysis.traces.doctor.diagnosis import EventReference
from faultline.analysis.traces.per_rank.step_times import StepWindow, longest, window_of


@dataclass(frozen=True)
class ProfilerOverhead:
    """Events of category `overhead` in the window: flushes of buffers, set-up of the accelerator's
    profiler."""

    ns: int
    share: float
    flushes: int
    longest: tuple[EventReference, ...]


@dataclass(frozen=True)
class CaptureContents:
    """What the trace holds at all."""

    events: int
    device_events: int
    runtime_calls: int
    devices_listed: int
    """Accelerators in the header."""
    steps: int
    window_ns: int
    dropped: int
    """Events or bytes that could not be read."""
    truncated: bool
    """The file ends before its list of events does."""


def profiler_overhead(trace: TraceColumns, window: StepWindow | None = None) -> ProfilerOverhead:
    """The profiler's own time. Source of the threshold over it: nsys-ai (contaminated from 15
    %)."""
    window = window or window_of(trace)
    rows = np.flatnonzero(
        trace.in_category("overhead") & (trace.end > window.begin) & (trace.ts < window.end)
    )
    spent = window.time_in(trace.ts[rows], trace.end[rows])
    flush = np.asarray(["flush" in name.lower() for name in trace.names] or [False], dtype=np.bool_)
    return ProfilerOverhead(
        ns=spent,
        share=window.share(spent),
        flushes=int(flush[trace.name[rows]].sum()) if len(rows) else 0,
        longest=longest(trace, rows, window.steps),
    )


def capture(trace: TraceColumns, window: StepWindow | None = None) -> CaptureContents:
    """What was recorded, and what was lost."""
    window = window or window_of(trace)
    devices = trace.header.get("deviceProperties")
    calls = trace.in_category(
        "cuda_runtime", "cuda_driver", "runtime", "driver", "xpu_runtime", "mtia_runtime"
    )
    return CaptureContents(
        events=len(trace),
        device_events=int(trace.on_device.sum()),
        runtime_calls=int(calls.sum()),
        devices_listed=len(devices) if isinstance(devices, list) else 0,
        steps=len(window.steps),
        window_ns=window.ns if len(trace) else 0,
        dropped=sum(trace.dropped.values()),
        # Only these reasons mean that the end is missing; single bad events do not.
        truncated=any(
            n and re.search("rest of the file|not closed", why) for why, n in trace.dropped.items()
        ),
    )


TABLE = RowTable(TEXT("overhead"), INT("count", "in_steps_ns"))


def rows(trace: TraceColumns) -> Rows:
    """The profiler's own time by name, as JSON rows."""
    window = window_of(trace)
    rows = []
    for name, event_rows in trace.by_name(np.flatnonzero(trace.in_category("overhead"))):
        begin, end = union(
            *clip(trace.ts[event_rows], trace.end[event_rows], window.begin, window.end)
        )
        rows.append((name, len(event_rows), (end - begin).sum()))
    return TABLE.of(rows)
