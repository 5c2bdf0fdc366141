"""The operator calls of a rank whose cost is known, and the work that each launched.

Of nested calls with a cost the outermost counts. Copies from and to the host are no work of an
operator: what they take depends on the bus.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
from faultline.analysis.traces.columns.trace_cache import cached_per_trace
from faultline.analysis.traces.costs.cost import Cost
from faultline.analysis.traces.costs.models import MODELS, ON_MATRIX_UNITS, cost_of
from faultline.analysis.traces.per_rank.call_stacks import CallStacks
from faultline.analysis.traces.per_rank.forest import nearest, outermost
from faultline.analysis.traces.per_rank.tensor_cores import TENSOR_CORE_KERNEL

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
