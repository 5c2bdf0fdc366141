"""A trace as HTA sees it, so that our analyses can be compared with HTA's on the same rows.

HTA drops events without a category and those of category "Trace"; rounds times to whole
microseconds inwards where any is fractional (a kernel inside one microsecond gets length 0 or -1);
takes streams that are no plain number for none; and, where a set of traces has at least two
profiler steps, drops the last step: host rows from its start on, and device rows without a kept
host row of the same correlation (one row per match, so rows may double).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.device import DeviceWork, Kind, on_runtime
from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns

HANDLES = 2**30
"""The reader numbers streams that are text from here."""
COMMUNICATION = re.compile(r"nccl|hip|hccl|.*ncclKernel")
MEMORY = re.compile(r"(hip)?Memcpy|(hip)?Memset|dma")
NO_COMPUTATION = re.compile(
    r"nccl|.*Memcpy|.*Memset|.*dma|.*Sync|Stream Wait "
    r"Event|cuda.*LaunchKernel|runFunction|hip|job_exe|packet|pe_exe|"
    r"cpum_exe_subgraph|hccl|collective_subgraph_execution"
)
"""HTA's patterns, each matched from the start of the name."""
NO_STREAM = 2**32 - 1
STEP = re.compile(r"^ProfilerStep#(\d+)")
COLUMNS = (
    "ts",
    "dur",
    "name",
    "category",
    "lane",
    "event",
    "offset",
    "stream",
    "correlation",
    "external_id",
)


def hta_view(
    trace: TraceColumns,
    *,
    steps_in_set: int | None = None,
    include_last_step: bool = False,
    round_times: bool = True,
    unsigned_streams: bool = False,
) -> TraceColumns:
    """The rows that HTA keeps, with its streams and (unless `round_times` is off) its whole
    microseconds.

    `steps_in_set` is the number of different steps over all traces that HTA loads together; None:
    this trace's own. `unsigned_streams`: the file writes 4294967295 for the stream of a context's
    synchronization (profilers of 2023), which HTA takes for a stream and our reader for none.
    """
    kept = trace.select(~_without_category(trace))
    kept = _rounded(kept) if round_times else kept
    kept = replace(
        kept, stream=np.where((kept.stream >= HANDLES) | on_runtime(kept), -1, kept.stream)
    )
    if unsigned_streams:
        syncs = [i for i, name in enumerate(kept.names) if name == "Context Sync"]
        kept = replace(kept, stream=np.where(np.isin(kept.name, syncs), NO_STREAM, kept.stream))
    steps = len(step_names(trace)) if steps_in_set is None else steps_in_set
    return _without_last_step(kept, include_last_step) if steps >= 2 else kept


def hta_views(traces: Sequence[TraceColumns], **options: Any) -> list[TraceColumns]:
    """The traces that HTA loads together."""
    steps = len(set().union(*(step_names(trace) for trace in traces))) if traces else 0
    return [hta_view(trace, steps_in_set=steps, **options) for trace in traces]


def step_names(trace: TraceColumns) -> set[str]:
    """Names of the profiler's steps in the trace."""
    used = np.unique(trace.name).tolist()
    return {trace.names[i] for i in used if STEP.match(trace.names[i])}


def in_hta_device(trace: TraceColumns) -> Bool:
    """HTA's "GPU rows" when it filters: a stream and a correlation, or one of two kinds of
    synchronization."""
    syncs = [i for i, name in enumerate(trace.names) if name in ("Event Sync", "Context Sync")]
    return np.asarray(((trace.stream >= 0) & (trace.correlation >= 0)) | np.isin(trace.name, syncs))


def hta_kind(name: str) -> Kind:
    """HTA's type of a kernel, by its name."""
    if COMMUNICATION.match(name):
        return Kind.COMMUNICATION
    if MEMORY.match(name):
        return Kind.MEMORY
    return Kind.OTHER if NO_COMPUTATION.match(name) else Kind.COMPUTATION


def hta_work(view: TraceColumns) -> DeviceWork:
    """HTA's "GPU rows" when it analyses: whatever has a stream; with HTA's types."""
    rows = np.flatnonzero(view.stream != -1)
    rows = rows[np.argsort(view.ts[rows], kind="stable")]
    kinds = np.asarray([*map(hta_kind, view.names), Kind.OTHER], dtype=np.int32)
    return DeviceWork(rows, view.ts[rows], view.end[rows], kinds[view.name[rows]])


def _without_category(trace: TraceColumns) -> Bool:
    none = [i for i, category in enumerate(trace.categories) if category in ("", "Trace")]
    return np.isin(trace.category, none)


def _rounded(trace: TraceColumns) -> TraceColumns:
    base = trace.header.get("baseTimeNanoseconds", 0)
    start = trace.ts - (base if isinstance(base, int) else 0)
    if not ((start % 1000).any() or (trace.dur % 1000).any()):
        return trace
    begin, length = _microseconds(start), _microseconds(trace.dur)
    first, last = np.ceil(begin), np.floor(begin + length)
    ts, dur = first.astype(np.int64) * 1000, (last - first).astype(np.int64) * 1000
    return replace(trace, ts=ts + (trace.ts - start), dur=dur)


def _microseconds(ns: Int64) -> NDArray[np.float64]:
    """As a JSON reader makes them of the decimals in the file."""
    return np.asarray(ns.astype(np.longdouble) / 1000, dtype=np.float64)


def _without_last_step(trace: TraceColumns, include_last: bool) -> TraceColumns:
    device = in_hta_device(trace)
    host = ~device
    if not host.any():
        return trace
    steps = [i for i, name in enumerate(trace.names) if STEP.match(name)]
    starts = trace.ts[host & np.isin(trace.name, steps)]
    last = int(starts.max() if len(starts) else trace.ts[host].min())
    times = (host & (include_last | (trace.ts < last))).astype(np.int64)
    asked, counts = np.unique(trace.correlation[times > 0], return_counts=True)
    on_device = np.flatnonzero(device)
    place = np.minimum(np.searchsorted(asked, trace.correlation[on_device]), max(len(asked) - 1, 0))
    if len(asked):
        times[on_device] = np.where(asked[place] == trace.correlation[on_device], counts[place], 0)
    return _repeated(trace, times)


def _repeated(trace: TraceColumns, times: Int64) -> TraceColumns:
    rows = np.repeat(np.arange(len(trace)), times)
    new_row = np.where(times > 0, np.cumsum(times) - times, -1).astype(np.int32)
    columns: dict[str, Any] = {
        c: getattr(trace, c)[rows] for c in (*COLUMNS, "python_id", "python_parent_id")
    }
    return replace(trace, **columns, arguments=trace.arguments.select(new_row))
