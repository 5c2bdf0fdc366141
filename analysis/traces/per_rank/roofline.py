"""FLOPs and bytes of operators against what the accelerator can do.

An operator's time is the summed length of what it launched. The roofline (Williams, Waterman and
Patterson, 2009) is the larger of the time that its FLOPs take at the device's peak and the time
that its bytes take at its bandwidth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import Kind, kinds
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable, rounded
from faultline.analysis.traces.costs.accelerators import accelerator_of
from faultline.analysis.traces.costs.cost import Cost
from faultline.analysis.traces.per_rank.call_stacks import CallStacks, call_stacks
from faultline.analysis.traces.per_rank.costed_calls import costed_calls
from faultline.analysis.traces.per_rank.step_window import window_of


@dataclass(frozen=True)
class CostedOperator:
    """All calls of one operator with the same shapes, types and values."""

    name: str
    shapes: str
    """"Input Dims" as compact JSON."""
    cost: Cost
    """Of one call."""
    calls: int
    kernels: int
    time_ns: int
    """Summed length of what all calls launched."""
    kernel: str
    """The launched kernel with the most time."""
    floor_ns: float | None
    """Least time of one call on this device; None where its peaks are unknown."""
    bound: str
    """"compute" or "memory": what sets the least time; "" where the peaks are unknown."""

    @property
    def tflops_per_s(self) -> float:
        """Reached."""
        # FLOPs per ns, divided by 1e3, are TFLOP/s.
        return self.calls * self.cost.flops / self.time_ns / 1e3 if self.time_ns else 0.0

    @property
    def tb_per_s(self) -> float:
        """Reached."""
        return self.calls * self.cost.bytes / self.time_ns / 1e3 if self.time_ns else 0.0

    @property
    def roofline_percent(self) -> float | None:
        """The least time of the time taken. Above 100: the data came from a cache, or zeros were
        left out."""
        if self.floor_ns is None or not self.time_ns:
            return None
        return 100.0 * self.calls * self.floor_ns / self.time_ns

    @property
    def lost_ns(self) -> int | None:
        """What all calls take beyond their least time."""
        if self.floor_ns is None:
            return None
        return max(0, round(self.time_ns - self.calls * self.floor_ns))


def roofline(trace: TraceColumns, stacks: CallStacks | None = None) -> list[CostedOperator]:
    """Operators with a known cost in the rank's steps; those that lose the most time first, then
    by time."""
    operator_calls = costed_calls(trace, stacks or call_stacks(trace))
    device = accelerator_of(trace.header)
    inside = window_of(trace).holds(trace)[operator_calls.rows]
    groups = len(operator_calls.costs)
    kernels = operator_calls.kernels[inside[operator_calls.owner]]
    of = operator_calls.group[operator_calls.owner[inside[operator_calls.owner]]]
    calls = np.bincount(operator_calls.group[inside], minlength=groups).tolist()
    launched = np.bincount(of, minlength=groups).tolist()
    spent = np.bincount(of, weights=trace.dur[kernels], minlength=groups).tolist()
    shapes = trace.arguments.text("Input Dims").at(operator_calls.first)
    table = []
    for group, cost in enumerate(operator_calls.costs):
        # None of its work lies in the window.
        if not spent[group]:
            continue
        floor_ns, bound = None, ""
        if device is not None:
            floor_ns, bound = device.floor_ns(cost, matrix_units=operator_calls.matrix_units[group])
        operator = CostedOperator(
            name=trace.name_of(int(operator_calls.first[group])),
            shapes=shapes[group],
            cost=cost,
            calls=calls[group],
            kernels=launched[group],
            time_ns=int(spent[group]),
            kernel=operator_calls.main_kernel[group],
            floor_ns=floor_ns,
            bound=bound,
        )
        table.append(operator)
    return sorted(table, key=lambda o: (-(o.lost_ns or 0), -o.time_ns, o.name, o.shapes))


TABLE = RowTable(
    TEXT("operator", "family", "shapes", "precision"),
    INT("calls", "kernels"),
    TEXT("kernel"),
    INT("time_ns"),
    rounded(2, "time_percent"),
    INT("flops", "bytes"),
    rounded(3, "flops_per_byte"),
    rounded(4, "tflops_per_s"),
    rounded(5, "tb_per_s"),
    TEXT("bound"),
    rounded(2, "roofline_percent"),
    INT("lost_ns"),
    rounded(0, "gain_per_step_ns"),
    rounded(3, "gain_percent"),
)


def rows(trace: TraceColumns) -> Rows:
    """One row for each operator and shape, what could be gained first."""
    window = window_of(trace)
    device = np.flatnonzero(window.holds(trace) & (kinds(trace) == Kind.COMPUTATION))
    compute_ns = int(trace.dur[device].sum())
    rows = []
    for o in roofline(trace):
        cost, lost = o.cost, o.lost_ns
        facts = (o.name, cost.family, o.shapes, cost.precision, o.calls, o.kernels, o.kernel)
        share = 100.0 * o.time_ns / compute_ns if compute_ns else 0.0
        work = (o.time_ns, share, cost.flops, cost.bytes, cost.intensity)
        reached = (o.tflops_per_s, o.tb_per_s, o.bound, o.roofline_percent)
        gain = (None, None) if lost is None else (lost / window.count, 100.0 * lost / window.ns)
        rows.append((*facts, *work, *reached, lost, *gain))
    return TABLE.of(rows)
