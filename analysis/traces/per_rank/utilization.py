"""How much of the accelerator's peak each step uses (MFU)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import Kind, kinds
from faultline.analysis.traces.columns.events import Int64, TraceColumns
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable, rounded
from faultline.analysis.traces.columns.steps import steps_of
from faultline.analysis.traces.costs.call import Accelerator, accelerator_of
from faultline.analysis.traces.per_rank.call_stacks import CallStacks, call_stacks
from faultline.analysis.traces.per_rank.roofline import CostedCalls, costed_calls
from faultline.analysis.traces.per_rank.step_times import window_of
from faultline.analysis.traces.per_rank.tensor_cores import matrix_kernels

LEFT_OUT = 0.05
"""Share of the computation in matrix products without a known operator, above which no MFU is
stated (our choice: it would be too low by about as much)."""


@dataclass(frozen=True)
class Utilization:
    """FLOPs of a step, or of all of a rank's trace, against its length."""

    part: str
    """"all" or "step 7"."""
    length_ns: int
    flops: int
    matrix_flops: int
    """Of them those of matrix products, convolutions and attention."""
    peak_ns: float | None
    """The time that `matrix_flops` take at the peaks of their precisions."""
    without_cost: int
    """Calls of matrix products, convolutions and attention whose cost the trace does not tell."""
    costed_ns: int
    """Summed length of the kernels whose operators have a cost."""
    compute_ns: int
    """Summed length of all computation kernels of the part."""
    unknown_ns: int
    """Of them those of matrix products whose operator is not known, as in a replayed graph."""

    @property
    def tflops_per_s(self) -> float:
        """Reached over the whole length, idle time included."""
        return self.flops / self.length_ns / 1e3 if self.length_ns else 0.0

    @property
    def mfu_percent(self) -> float | None:
        """Share of the peak that the step uses; None where that is not known. What is computed
        twice (activation checkpointing) counts twice: papers call that hardware FLOPs
        utilization."""
        if self.peak_ns is None or not self.length_ns or self.without_cost:
            return None
        if self.unknown_ns > LEFT_OUT * self.compute_ns:
            return None
        return 100.0 * self.peak_ns / self.length_ns

    @property
    def costed_percent(self) -> float:
        """How much of the computation has a cost: what the other figures rest on."""
        return 100.0 * self.costed_ns / self.compute_ns if self.compute_ns else 0.0


def utilization(trace: TraceColumns, stacks: CallStacks | None = None) -> list[Utilization]:
    """Of the rank's steps together, then of each; of everything, without steps. Empty where no
    operator has a cost. Work belongs to the step in which the host asked for it."""
    stacks = stacks or call_stacks(trace)
    operator_calls = costed_calls(trace, stacks)
    if not len(operator_calls.kernels):
        return []
    window, steps = window_of(trace), steps_of(trace)
    parts = [("all", window.begin, window.end)]
    bounds = zip(steps.number.tolist(), steps.start.tolist(), steps.end.tolist(), strict=True)
    parts += [(f"step {number}", begin, end) for number, begin, end in bounds]
    device = accelerator_of(trace.header)
    computing = np.flatnonzero(kinds(trace) == Kind.COMPUTATION)
    launch = stacks.parent[computing]
    # Where no launch is recorded, a kernel belongs to the step in which it runs.
    launch_ns = np.where(launch >= 0, trace.ts[launch], trace.ts[computing])
    return [_utilization(operator_calls, device, computing, launch_ns, *part) for part in parts]


TABLE = RowTable(
    TEXT("part"),
    INT("length_ns", "flops", "matrix_flops"),
    rounded(4, "tflops_per_s"),
    rounded(2, "mfu_percent"),
    INT("without_cost"),
    rounded(2, "costed_percent"),
)


def rows(trace: TraceColumns) -> Rows:
    """The rank's steps together, then each."""
    return TABLE.rows(utilization(trace))


def _utilization(
    operator_calls: CostedCalls,
    device: Accelerator | None,
    computing: Int64,
    launch_ns: Int64,
    part: str,
    begin: int,
    end: int,
) -> Utilization:
    """`computing` are all kernels, and `launch_ns` is when each was launched."""
    trace = operator_calls.trace
    called = trace.ts[operator_calls.rows]
    here = (called >= begin) & (called < end)
    counts = np.bincount(operator_calls.group[here], minlength=len(operator_calls.costs)).tolist()
    flops = matrix_flops = 0
    peak_ns: float | None = 0.0 if device is not None else None
    for cost, calls, matrix in zip(
        operator_calls.costs, counts, operator_calls.matrix_units, strict=True
    ):
        flops += calls * cost.flops
        if not cost.on_matrix_units or not calls:
            continue
        matrix_flops += calls * cost.flops
        peak = device.peak_tflops(cost, matrix_units=matrix) if device is not None else None
        # One unknown peak makes the sum unknown: a partial one would read too low.
        peak_ns = None if peak is None or peak_ns is None else peak_ns
        if peak is not None and peak_ns is not None:
            peak_ns += calls * cost.flops / peak / 1e3
    launched = computing[(launch_ns >= begin) & (launch_ns < end)]
    costed = np.isin(launched, operator_calls.kernels)
    missing = trace.ts[operator_calls.without]
    return Utilization(
        part=part,
        length_ns=end - begin,
        flops=flops,
        matrix_flops=matrix_flops,
        peak_ns=peak_ns,
        without_cost=int(((missing >= begin) & (missing < end)).sum()),
        costed_ns=int(trace.dur[launched[costed]].sum()),
        compute_ns=int(trace.dur[launched].sum()),
        unknown_ns=int(trace.dur[matrix_kernels(trace, launched[~costed])].sum()),
    )
