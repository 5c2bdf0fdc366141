"""The analyses of one rank that a user can ask for by name, and where they are.

Each is a module with `rows(trace)`, all its rows of JSON values, and their `TABLE`. Modules are
imported when they are asked for. Documents hold what `cut` leaves of the rows.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from faultline.analysis.errors import SettingsError
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.columns.row_table import Rows, RowTable

MAX_ROWS = 1_000
"""Of one analysis of one rank, in a document."""

ANALYSES: dict[str, str] = {
    "temporal": "where the device's time goes, by step: computation, communication, copies, idle",
    "idle": "why each stream is idle: the host is late, the kernel before it, other",
    "idle_gaps": "the longest times in which nothing ran on the device, and what the host did "
    "meanwhile",
    "kernels": "kernels by name: count, time, spread",
    "annotations": "what runs on the device below each annotation",
    "kernel_families": "work by library and kind: matrix products, attention, Triton, collectives",
    "serving": "prefill and decode of an inference server: time, tokens, kernels",
    "launches": "from the call on the host to the kernel: delays, short kernels",
    "launch_queue": "kernels launched and not yet begun, by stream; time blocked at 1,024",
    "bandwidth": "memory copies: bytes per second",
    "copies": "copies between host and device: direction, pinned memory or not",
    "host_syncs": "calls in which the host waits for the device, and what made them",
    "data_loading": "time in the data loader, by step",
    "operators": "operators by name: own time, calls, delays",
    "operator_delays": "from each operator to its launch and to its kernels, by sequence of "
    "kernels",
    "call_stacks": "where in the code the time goes",
    "sequences": "patterns of kernels that come again and again",
    "tiny_kernels": "how small the pieces are that the work is cut into",
    "tensor_cores": "whether matrix products ran on the matrix units",
    "roofline": "FLOPs and bytes of operators against the device's peaks, what could be gained "
    "first",
    "utilization": "FLOPs of each step, TFLOP/s, share of the device's peak (MFU)",
    "recompiles": "compiled graphs, and compilations inside steps",
    "collective_bandwidth": "collectives, sends and receives by operation, group and size: "
    "bandwidth against the link, time hidden and exposed",
    "counters": "hardware counters by operator",
    "memory": "allocated and reserved memory over time",
    "allocations": "calls to the driver's allocator, growth over steps, room to the limit",
    "device_use": "how much of the steps the device worked, its long gaps, full launch queues",
    "pauses": "checkpoint saves, garbage collections, evaluations",
    "profiler_overhead": "what the profiler itself cost",
    "critical_path": "the chain of work that the step had to wait for",
}
BESIDE: dict[str, str] = {
    "execution_trace": "the node of a Chakra execution trace of each operator, where one lies "
    "beside the trace",
    "memory_by_category": "bytes by category over time, of raw memory timelines",
}
"""Analyses of other files than traces: made where there are such files."""

_MODULES = {
    "critical_path": "critical_path_breakdown",
    "memory_by_category": "memory_categories",
}
"""Where an analysis is not in the module of its name."""


def chosen(names: str | None) -> tuple[str, ...]:
    """The analyses of a comma-separated list; all where there is none. Raises SettingsError for an
    unknown name."""
    if names is None:
        return tuple(ANALYSES)
    chosens = tuple(name.strip() for name in names.split(",") if name.strip())
    for name in chosens:
        if name not in ANALYSES:
            raise SettingsError(
                "--only", f"no analysis is called {name!r}; there are {', '.join(ANALYSES)}"
            )
    return chosens


def all_rows_of(name: str, trace: TraceColumns) -> Rows:
    """The rows of an analysis of one rank."""
    rows: Rows = _module(name).rows(trace)
    return rows


def table_of(name: str) -> RowTable:
    """The columns of an analysis of ANALYSES or BESIDE."""
    table: RowTable = _module(name).TABLE
    return table


def _module(name: str) -> ModuleType:
    return import_module(f"faultline.analysis.traces.per_rank.{_MODULES.get(name, name)}")


def cut(rows: Rows) -> Rows:
    """At most MAX_ROWS; where there are more, the last one says how many were left out."""
    if len(rows) <= MAX_ROWS:
        return rows
    # One row less leaves room for the note.
    return [*rows[: MAX_ROWS - 1], {"cut": len(rows) - MAX_ROWS + 1}]


def rows_of(name: str, trace: TraceColumns) -> Rows:
    """The rows of an analysis of one rank as a document holds them."""
    return cut(all_rows_of(name, trace))
