"""How late an operator's kernels come: from its start to the launch, and from the launch to the
kernel.

One row per operator and sequence of kernels, as HTA's `get_aten_op_kernels_and_delay` has them.
"""

from __future__ import annotations

from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.columns.row_table import INT, TEXT, TEXTS, Rows, RowTable, rounded
from faultline.analysis.traces.per_rank.operators import operator_delays

MAX_KERNELS = 50
"""Kernels named of one sequence; a graph launches thousands."""


TABLE = RowTable(
    TEXT("name"),
    TEXTS("kernels"),
    INT("kernels_per_call", "calls"),
    rounded(0, "launch_delay_ns", "runtime_delay_ns"),
)


def rows(trace: TraceColumns) -> Rows:
    """The table of delays as JSON values, most frequent first."""
    rows = []
    for d in operator_delays(trace):
        kernels = (d.kernels[:MAX_KERNELS], len(d.kernels))
        rows.append((d.name, *kernels, d.calls, d.launch_delay_ns, d.runtime_delay_ns))
    return TABLE.of(rows)
