"""FLOPs and bytes of operators against what the accelerator can do.

An operator's time is the summed length of what it launched. The roofline (Williams, Waterman and
Patterson, 2009) is the larger of the time that its FLOPs take at the device's peak and the time
that its bytes take at its bandwidth.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from faultline.analysis.traces.columns.device import Kind, kinds
from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
from faultline.analysis.traces.columns.row_table import (
    INT,
    TEXT,
    Rows,
    RowTable,
    cached_per_trace,
    rounded,
)
from faultline.analysis.traces.costs.call import Cost, accelerator_of
from faultline.analysis.traces.costs.models import MODELS, ON_MATRIX_UNITS, cost_of
from faultline.analysis.traces.per_rank.call_stacks import (
    CallStacks,
    call_stacks,
    nearest,
    outermost,
)
from faultline.analysis.traces.per_rank.step_times import window_of
from faultline.analysis.traces.per_rank.tensor_cores import TENSOR_CORE_KERNEL

# The operator calls of a rank whose cost is known, and the work that each launched.
#
# Of nested calls with a cost the outermost counts. Copies from and to the host are no work of an
# operator: what they take depends on the bus.

OVER_THE_BUS = re.compile(r"Memcpy (HtoD|DtoH|HtoH|PtoP)|CopyHostToDevice|CopyDeviceToHost", re.I)


@dataclass(frozen=True)
class CostedCalls:
    """Calls with a cost; `rows` and `group` have one entry each. Calls of one group have the same
    name, shapes, types and values."""

    trace: TraceColumns
    rows: Int64
    group: Int64
    """Index into `costs`."""
    costs: tuple[Cost, ...]
    kernels: Int64
    """Rows of the work that the calls launched."""
    owner: Int64
    """Of each kernel, the place of its call in `rows`."""
    without: Int64
    """Calls of matrix products, convolutions and attention whose cost the trace does not tell."""

    @cached_property
    def first(self) -> Int64:
        """Row of the first call of each group."""
        _, first = np.unique(self.group, return_index=True)
        return self.rows[first]

    @cached_property
    def main_kernel(self) -> tuple[str, ...]:
        """Of each group the kernel with the most time; "" where it launched none."""
        names = len(self.trace.names)
        key = self.group[self.owner] * names + self.trace.name[self.kernels]
        pairs, place = np.unique(key, return_inverse=True)
        spent = np.bincount(place.reshape(-1), weights=self.trace.dur[self.kernels])
        kernel_names = [""] * len(self.costs)
        # From the shortest to the longest, so that the longest is what stays.
        for pair in pairs[np.argsort(spent, kind="stable")].tolist():
            kernel_names[pair // names] = self.trace.names[pair % names]
        return tuple(kernel_names)

    @cached_property
    def matrix_units(self) -> tuple[bool, ...]:
        """Whether the main kernel of each group uses them."""
        return tuple(TENSOR_CORE_KERNEL.search(name) is not None for name in self.main_kernel)


@cached_per_trace
def costed_calls(trace: TraceColumns, stacks: CallStacks) -> CostedCalls:
    """The calls that launch work and whose cost is known."""
    dims = trace.arguments.text("Input Dims")
    has_model = np.asarray([name in MODELS for name in trace.names] + [False], dtype=np.bool_)
    rows = dims.rows[has_model[trace.name[dims.rows]]].astype(np.int64)
    # Only calls that launched work have a time on the device.
    rows = rows[stacks.num_kernels[rows] > 0]
    group, costs = _costs(trace, rows)
    has_cost = np.asarray([cost is not None for cost in costs], dtype=np.bool_)[group]
    expensive = np.asarray(
        [name in ON_MATRIX_UNITS for name in trace.names] + [False], dtype=np.bool_
    )
    without = rows[~has_cost & expensive[trace.name[rows]]]
    rows, group = rows[has_cost], group[has_cost]
    top = outermost(stacks.parent, _mask(trace, rows))[rows] == rows
    rows, group = rows[top], group[top]
    by_name = [OVER_THE_BUS.search(name) is not None for name in trace.names]
    work = np.flatnonzero(
        trace.on_device
        & (stacks.parent >= 0)
        & ~np.asarray([*by_name, False], dtype=np.bool_)[trace.name]
    )
    place = np.full(len(trace) + 1, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    owner = place[nearest(stacks.parent, _mask(trace, rows))[work]]
    kernels, owner = work[owner >= 0], owner[owner >= 0]
    used, group = np.unique(group, return_inverse=True)
    remaining_costs = tuple(cost for i in used.tolist() if (cost := costs[i]) is not None)
    return CostedCalls(
        trace,
        rows,
        group.reshape(-1).astype(np.int64),
        remaining_costs,
        kernels.astype(np.int64),
        owner,
        without,
    )


def _costs(trace: TraceColumns, rows: Int64) -> tuple[Int64, list[Cost | None]]:
    """The group of each row, and the cost of one call of each group."""
    names = ("Input Dims", "Input type", "Concrete Inputs")
    texts = [trace.arguments.text(name) for name in names]
    ids = [text.ids_at(rows) for text in texts]
    keys = np.stack([trace.name[rows], *ids], axis=1)
    unique, group = np.unique(keys, axis=0, return_inverse=True)
    costs = []
    for name, *of_texts in unique.tolist():
        written = [text.texts[i] if i >= 0 else "" for text, i in zip(texts, of_texts, strict=True)]
        costs.append(cost_of(trace.names[name], *written))
    return group.reshape(-1).astype(np.int64), costs


def _mask(trace: TraceColumns, rows: Int64) -> Bool:
    mask = np.zeros(len(trace), dtype=np.bool_)
    mask[rows] = True
    return mask


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
