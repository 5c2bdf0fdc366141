"""Copies between host and accelerator, distinguished by direction and by whether the host's memory
is pinned.

The profiler names them "Memcpy HtoD (Pageable -> Device)"; ROCm's "CopyHostToDevice" does not tell
the memory's kind. A pageable copy is staged through a pinned buffer while the host waits, also when
it was asked for asynchronously (Nsight Systems' rule cuda_memcpy_async).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import launched_by
from faultline.analysis.traces.columns.events import Int64, TraceColumns
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable
from faultline.analysis.traces.doctor.diagnosis import EventReference
from faultline.analysis.traces.per_rank.step_times import StepWindow, longest, window_of

H2D = re.compile(r"HtoD|HostToDevice", re.IGNORECASE)
D2H = re.compile(r"DtoH|DeviceToHost", re.IGNORECASE)
PAGEABLE = re.compile(r"Pageable", re.IGNORECASE)


@dataclass(frozen=True)
class DirectionCopies:
    """Copies of one direction in the window."""

    count: int
    bytes: int
    """0 where the trace gives no sizes."""
    ns: int
    """On the accelerator."""
    host_ns: int
    """In the calls that asked for them."""


@dataclass(frozen=True)
class CopyTimes:
    """Copies in the window's steps."""

    to_device: DirectionCopies
    to_host: DirectionCopies
    pageable_to_device: DirectionCopies
    pageable_to_host: DirectionCopies
    longest_to_device: tuple[EventReference, ...]
    longest_pageable: tuple[EventReference, ...]


def copies(trace: TraceColumns, window: StepWindow | None = None) -> CopyTimes:
    """The rank's copies."""
    window = window or window_of(trace)
    here = window.holds(trace) & trace.on_device
    to_device, to_host = _rows(trace, H2D), _rows(trace, D2H)
    to_device, to_host = to_device[here[to_device]], to_host[here[to_host]]
    unpinned = _rows(trace, PAGEABLE)
    # Linking launches is slow: skip it where nothing was copied.
    calls = launched_by(trace) if len(to_device) or len(to_host) else np.empty(0, dtype=np.int64)
    pageable = to_device[np.isin(to_device, unpinned)]
    back = to_host[np.isin(to_host, unpinned)]
    return CopyTimes(
        to_device=_direction(trace, to_device, calls),
        to_host=_direction(trace, to_host, calls),
        pageable_to_device=_direction(trace, pageable, calls),
        pageable_to_host=_direction(trace, back, calls),
        longest_to_device=longest(trace, to_device, window.steps),
        longest_pageable=longest(trace, np.concatenate((pageable, back)), window.steps),
    )


def _rows(trace: TraceColumns, pattern: re.Pattern[str]) -> Int64:
    return trace.rows_named(lambda name: pattern.search(name) is not None)


def _direction(trace: TraceColumns, rows: Int64, calls: Int64) -> DirectionCopies:
    sizes = trace.arguments.number("bytes").at(rows, 0.0)
    # Several copies may share a call, as in a graph: count its time once.
    call = np.unique(calls[rows]) if len(rows) else rows
    call = call[call >= 0]
    return DirectionCopies(
        count=len(rows),
        bytes=int(np.clip(np.nan_to_num(sizes), 0, 2**50).sum()) if len(rows) else 0,
        ns=int(trace.dur[rows].sum()),
        host_ns=int(trace.dur[call].sum()),
    )


TABLE = RowTable(TEXT("copy"), INT("count", "bytes", "total_ns", "host_ns"))


def rows(trace: TraceColumns) -> Rows:
    """Copies by name, as JSON rows."""
    window = window_of(trace)
    here = np.flatnonzero(window.holds(trace) & trace.on_device)
    named = np.asarray(
        [bool(H2D.search(n) or D2H.search(n)) for n in trace.names] or [False], dtype=np.bool_
    )
    here = here[named[trace.name[here]]]
    calls = launched_by(trace) if len(here) else here
    rows = []
    for name, copy_rows in trace.by_name(here):
        direction = _direction(trace, copy_rows, calls)
        rows.append((name, direction.count, direction.bytes, direction.ns, direction.host_ns))
    return TABLE.of(rows)
