"""The analyses that HTA's side runs, by the same names.

Each begins with columns of which nothing is derived but the links of kernels to launches and
streams: HTA makes them while it loads. Their cost is on a separate line.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from measured import Measured

from faultline.analysis.traces.columns.device import device_launches, device_streams
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.per_rank.bandwidth import bandwidth_series
from faultline.analysis.traces.per_rank.call_stacks import call_stacks
from faultline.analysis.traces.per_rank.critical_path import critical_path
from faultline.analysis.traces.per_rank.critical_path_breakdown import breakdown
from faultline.analysis.traces.per_rank.critical_path_events import whole_trace
from faultline.analysis.traces.per_rank.idle import idle_breakdown
from faultline.analysis.traces.per_rank.kernels import kernel_breakdown, kernel_types
from faultline.analysis.traces.per_rank.launch_queue import queue_length
from faultline.analysis.traces.per_rank.launches import launch_stats
from faultline.analysis.traces.per_rank.operators import operator_delays
from faultline.analysis.traces.per_rank.sequences import kernel_sequences
from faultline.analysis.traces.per_rank.temporal import communication_overlap, temporal_breakdown
from faultline.analysis.traces.perfetto.augmented import write_overlay, write_with_counters

FAST: dict[str, Callable[[TraceColumns], Any]] = {
    "temporal breakdown": temporal_breakdown,
    "communication overlap": communication_overlap,
    "idle breakdown": idle_breakdown,
    "queue length": queue_length,
    "memory bandwidth": bandwidth_series,
    "kernel breakdown": lambda trace: (kernel_types(trace), kernel_breakdown(trace)),
    "launch statistics": launch_stats,
}
SLOW: dict[str, Callable[[TraceColumns], Any]] = {
    "call stacks": call_stacks,
    "kernel sequences": lambda trace: kernel_sequences(trace, "aten::addmm"),
    "operator delays": operator_delays,
    "critical path, whole trace": lambda trace: critical_path(trace, whole_trace(trace)),
}
"""What takes HTA minutes."""


LINKS = "links of kernels (HTA: while loading)"


def _linked(trace: TraceColumns) -> TraceColumns:
    fresh = replace(trace)
    device_launches(fresh)
    device_streams(fresh)
    return fresh


def run(measured: Measured, traces: list[TraceColumns]) -> None:
    """Time what takes neither side long, each analysis on all ranks."""
    measured.time(LINKS, lambda: [_linked(trace) for trace in traces])
    for name, analyse in FAST.items():
        fresh = [_linked(trace) for trace in traces]
        measured.time(name, lambda analyse=analyse, fresh=fresh: [analyse(t) for t in fresh])


def run_slow(measured: Measured, trace: TraceColumns, file: Path) -> None:
    """Time the rest, on one rank."""
    path: Any = None
    for name, analyse in SLOW.items():
        fresh = _linked(trace)
        time = measured.time(name, lambda analyse=analyse, fresh=fresh: analyse(fresh))
        path = time if name.startswith("critical") else path
    measured.time("critical path breakdown", lambda: breakdown(replace(trace), path))
    with tempfile.TemporaryDirectory() as folder:
        overlay, counters = Path(folder) / "overlay.json", Path(folder) / "counters.json"
        measured.time("overlay written", lambda: write_overlay(file, overlay, replace(trace), path))
        measured.time(
            "counters written", lambda: write_with_counters(file, counters, replace(trace))
        )
