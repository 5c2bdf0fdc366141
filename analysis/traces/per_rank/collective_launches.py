"""When the host launched each collective of a rank."""

from __future__ import annotations

from collections import deque

import numpy as np

from faultline.analysis.traces.columns.events import Int64, TraceColumns
from faultline.analysis.traces.per_rank.collective_names import is_call


def launch_times(trace: TraceColumns, rows: Int64, launch: Int64) -> Int64:
    """ns, one per row; -1 for kernels whose launch is unknown.

    `rows` are collectives by start, `launch` the row of the call that launched each (-1 for none).
    A kernel is launched by that call. A collective on the host runs on a thread of its library, in
    the order of the calls of its process group (`c10d::allreduce_`): it takes the oldest call that
    no other took; where there is none, its own start.
    """
    has_launch = launch >= 0
    times = (
        np.where(has_launch, trace.ts[np.maximum(launch, 0)], -1)
        if len(trace)
        else np.empty(0, dtype=np.int64)
    )
    on_host = np.flatnonzero(~trace.on_device[rows])
    starts = trace.ts[rows[on_host]]
    calls = trace.rows_named(is_call)
    waiting: deque[int] = deque()
    begun = trace.ts[calls[trace.in_category("cpu_op", "operator")[calls]]].tolist()
    oldest_calls, upcoming = starts.copy(), 0
    for place, start in enumerate(starts.tolist()):
        while upcoming < len(begun) and begun[upcoming] <= start:
            waiting.append(begun[upcoming])
            upcoming += 1
        if waiting:
            oldest_calls[place] = waiting.popleft()
    times[on_host] = oldest_calls
    return times
