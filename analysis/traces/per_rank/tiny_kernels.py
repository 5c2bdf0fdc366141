"""How small the pieces are that the work is cut into: kernels on the accelerator, operators on the
host.

Each kernel costs the host a launch of some microseconds, each operator its dispatch; where the
pieces are shorter than that, the host sets the pace.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import Kind, kinds
from faultline.analysis.traces.columns.events import Int64, TraceColumns
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable, rounded
from faultline.analysis.traces.doctor.diagnosis import EventReference
from faultline.analysis.traces.per_rank.step_times import StepWindow, event_reference, window_of

SMALL_NS = 10_000
"""A kernel shorter than 10 us is small (nsys-ai)."""


@dataclass(frozen=True)
class Pieces:
    """Pieces of one kind in the window."""

    count: int
    total_ns: int
    median_ns: int
    small: int
    """Shorter than SMALL_NS."""
    most_frequent: str
    """The name that the small ones have most often; "" where there is none."""
    most_frequent_count: int
    example: EventReference | None
    """One of them."""

    @property
    def mean_ns(self) -> float:
        """0 without pieces."""
        return self.total_ns / self.count if self.count else 0.0


@dataclass(frozen=True)
class TinyKernels:
    """Kernels and operators of the window's steps."""

    kernels: Pieces
    """Computation kernels."""
    operators: Pieces
    """`cpu_op` events, those inside others too; their total is not time on the clock."""
    operator_busy_ns: int
    """Time in which the thread with the most operators ran one that computes."""


def tiny_kernels(trace: TraceColumns, window: StepWindow | None = None) -> TinyKernels:
    """The sizes of the rank's kernels and operators. Source of the threshold on kernels:
    nsys-ai."""
    window = window or window_of(trace)
    here = window.holds(trace)
    computing = np.flatnonzero(here & (kinds(trace) == Kind.COMPUTATION))
    operators = operator_rows(trace, window)
    # Threads run side by side: time on the clock is that of the busiest one.
    lane = np.bincount(trace.lane[operators]).argmax() if len(operators) else 0
    main = operators[trace.lane[operators] == lane]
    return TinyKernels(
        kernels=_pieces(trace, computing, window),
        operators=_pieces(trace, operators, window),
        operator_busy_ns=window.time_in(trace.ts[main], trace.end[main]),
    )


def operator_rows(trace: TraceColumns, window: StepWindow) -> Int64:
    """Operators that compute: not autograd's frames, nor collectives, which contain waiting."""
    frames = (
        "autograd::engine",
        "torch::autograd",
        "c10d::",
        "nccl:",
        "gloo:",
        "record_param_comms",
        "FSDP::",
    )
    is_operator = np.asarray(
        ["::" in n and not n.startswith(frames) for n in trace.names] or [False], dtype=np.bool_
    )
    here = window.holds(trace) & trace.in_category("cpu_op", "operator")
    return np.flatnonzero(here & (is_operator[trace.name] if len(trace) else here))


def _pieces(trace: TraceColumns, rows: Int64, window: StepWindow) -> Pieces:
    dur = trace.dur[rows]
    small = rows[dur < SMALL_NS]
    # argmax needs an entry at least.
    counts = np.bincount(trace.name[small]) if len(small) else np.zeros(1, dtype=np.int64)
    top = int(counts.argmax())
    example = int(small[np.argmax(trace.name[small] == top)]) if len(small) else -1
    return Pieces(
        count=len(rows),
        total_ns=int(dur.sum()),
        median_ns=int(np.median(dur)) if len(rows) else 0,
        small=len(small),
        most_frequent=trace.names[top][:200] if len(small) else "",
        most_frequent_count=int(counts[top]),
        example=event_reference(trace, example, window.steps) if example >= 0 else None,
    )


TABLE = RowTable(TEXT("kernel"), INT("count"), rounded(2, "per_step"), INT("total_ns", "mean_ns"))


def rows(trace: TraceColumns) -> Rows:
    """Small kernels by name, as JSON rows, the most frequent first."""
    window = window_of(trace)
    small = np.flatnonzero(
        window.holds(trace) & (kinds(trace) == Kind.COMPUTATION) & (trace.dur < SMALL_NS)
    )
    if not len(small):
        return []
    counts = np.bincount(trace.name[small], minlength=len(trace.names))
    sums = np.bincount(trace.name[small], weights=trace.dur[small], minlength=len(trace.names))
    order = np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]
    names = [trace.names[i] for i in order.tolist()]
    count, total = counts[order], sums[order]
    return TABLE.of(zip(names, count, count / window.count, total, total / count, strict=True))
