"""The analyses of one rank that a user can ask for by name, and where they are.

Each is a module with `rows(trace)`, all its rows of JSON values, and their `TABLE`. Modules are
imported when they are asked for. Documents hold what `cut` leaves of the rows.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from faultline.analysis.errors import SettingsError
from faultline.analysis.traces.across_ranks.comparison import RankComparison
from faultline.analysis.traces.across_ranks.kernel_speed import DURATIONS, kernel_distribution
from faultline.analysis.traces.across_ranks.step_breakdown import PARTS
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable, rounded
from faultline.analysis.traces.per_rank.collective_bandwidth import OF_ALL_RANKS

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


# Analyses that need all ranks, as rows of JSON values, ns in names that end in `_ns`.

ACROSS_RANKS: dict[str, str] = {
    "steps_by_rank": "where each step of each rank goes, communication told apart into waiting "
    "and transfer",
    "blame": "how long the others wait for each rank",
    "collectives": "collectives by operation, group and size: waiting, transfer, bandwidth",
    "exposed_collectives": "collectives of each rank that no computation hides",
    "slow_steps": "steps that are longer than the others",
    "idle_together": "times in which all ranks are idle at once",
    "kernels_by_rank": "durations of the kernels with the most time on each rank",
    "kernel_speed": "how fast each rank's device runs the same kernels",
}


TABLES: dict[str, RowTable] = {
    "steps_by_rank": RowTable(
        INT("rank", "step", "step_ns", *(f"{part.replace(' ', '_')}_ns" for part in PARTS))
    ),
    "blame": RowTable(
        INT("rank", "blame_ns"),
        rounded(3, "blame_percent"),
        INT("last_arrivals", "steps_held_up", "steps"),
    ),
    "collectives": RowTable(OF_ALL_RANKS.columns, TEXT("split_by")),
    "exposed_collectives": RowTable(
        INT("rank"),
        TEXT("operation"),
        INT("count"),
        rounded(0, "per_step_ns", "exposed_per_step_ns"),
        rounded(2, "hidden_percent", "of_step_percent"),
    ),
    "slow_steps": RowTable(INT("step"), rounded(0, "median_ns", "usual_ns"), rounded(3, "ratio")),
    "idle_together": RowTable(
        INT("start_ns", "length_ns", "step"),
        TEXT(host_call="host"),
        INT(ranks_doing_that="hosts_alike"),
    ),
    "kernels_by_rank": DURATIONS,
    "kernel_speed": RowTable(
        INT("rank", "kernels"), rounded(4, "ratio"), rounded(2, "slower_percent")
    ),
}


def job_analyses(compared: RankComparison) -> dict[str, Rows]:
    """All of ACROSS_RANKS, with all their rows."""
    longest = sorted(compared.idle.intervals, key=lambda i: -i.length_ns)
    rows = []
    for steps in compared.steps:
        parts = [steps.parts[part].tolist() for part in PARTS]
        columns = (steps.number.tolist(), steps.length.tolist(), *parts)
        rows += [(steps.rank, *values) for values in zip(*columns, strict=True)]
    if compared.why_not is not None:
        # Where ranks do not compare, nobody is blamed.
        blame = []
    else:
        whole = compared.blame.step_count
        blame = TABLES["blame"].of(
            (b.rank, b.blame_ns, 100 * b.share, b.last_arrivals, b.steps_blamed, whole)
            for b in compared.blame.ranks
        )
    return {
        "steps_by_rank": TABLES["steps_by_rank"].of(rows),
        "blame": blame,
        "collectives": _collectives(compared),
        "exposed_collectives": _exposed(compared),
        "slow_steps": TABLES["slow_steps"].rows(compared.outlier_steps),
        "idle_together": TABLES["idle_together"].rows(longest),
        "kernels_by_rank": kernel_distribution(compared.job.ranks),
        "kernel_speed": _speeds(compared),
    }


def _collectives(compared: RankComparison) -> Rows:
    table = compared.collectives
    return [row | {"split_by": table.by} for row in OF_ALL_RANKS.rows(table.rows)]


def _exposed(compared: RankComparison) -> Rows:
    return TABLES["exposed_collectives"].of(
        (e.rank, e.operation, e.count, e.total, e.exposed, e.hidden_percent, 100 * e.step_share)
        for exposure in compared.exposures
        for e in exposure
    )


def _speeds(compared: RankComparison) -> Rows:
    return TABLES["kernel_speed"].of(
        (s.rank, s.kernels, s.ratio, 100 * s.slower_share) for s in compared.speeds
    )
