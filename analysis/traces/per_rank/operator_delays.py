"""How late an operator's kernels come: from its start to the launch, and from the launch to the
kernel.

One row per operator and sequence of kernels, as HTA's `get_aten_op_kernels_and_delay` has them.
"""

from __future__ import annotations

from typing import Any

from analysis.traces.columns.events import TraceColumns
from analysis.traces.per_rank.operators import operator_delays

MAX_KERNELS = 50
"""Kernels named of one sequence; a graph launches thousands."""


def rows(trace: TraceColumns) -> list[dict[str, Any]]:
    """The table of delays as JSON values, most frequent first."""
    return [
        {
            "name": d.name,
            "kernels": list(d.kernels[:MAX_KERNELS]),
            "kernels_per_call": len(d.kernels),
            "calls": d.calls,
            "launch_delay_ns": round(d.launch_delay_ns),
            "runtime_delay_ns": round(d.runtime_delay_ns),
        }
        for d in operator_delays(trace)
    ]
