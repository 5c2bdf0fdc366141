"""How long a rank's main thread is in its data loader, per step.

`enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__` loads in the training process itself
(num_workers=0); `_MultiProcessingDataLoaderIter` waits for worker processes. On a rank with an
accelerator only the time in which the accelerator has nothing to do counts as exposed.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import numpy as np

from faultline.analysis.traces.columns.events import Int64, TraceColumns
from faultline.analysis.traces.columns.intervals import covered, difference, length, union
from faultline.analysis.traces.columns.row_table import FLOAT, INT, Rows, RowTable
from faultline.analysis.traces.columns.steps import PHASES
from faultline.analysis.traces.doctor.diagnosis import EventReference
from faultline.analysis.traces.judgement.thresholds import WARN_SHARE
from faultline.analysis.traces.per_rank.step_times import StepWindow, longest, window_of

IN_PROCESS = "_SingleProcessDataLoaderIter"


@dataclass(frozen=True)
class DataLoading:
    """Time in the data loader, of the window's steps."""

    ns: int
    """On the host, in all steps."""
    exposed_ns: int
    """Of it, while no kernel or copy ran; all of it on a rank without an accelerator."""
    share: float
    """Exposed, of the window."""
    calls: int
    in_process: bool
    """Whether the loader runs in the training process (num_workers=0)."""
    longest: tuple[EventReference, ...]
    usual_ns: int = 0
    """Exposed in the median step; in all of the window, without steps."""
    usual_share: float = 0.0
    """Of the step, in the median step."""
    stalled_steps: int = 1
    """Steps of which a `WARN_SHARE` or more is exposed; 1 without steps."""


def data_loading(trace: TraceColumns, window: StepWindow | None = None) -> DataLoading:
    """The rank's time in its data loader. Source: the plugin of TensorBoard and TraceML measure the
    same annotation."""
    window = window or window_of(trace)
    rows = loader_rows(trace, window)
    spans = window.clipped(trace.ts[rows], trace.end[rows])
    device = trace.on_device
    busy = window.clipped(trace.ts[device], trace.end[device]) if len(rows) else spans
    spent = length(spans)
    alone = difference(spans, busy) if device.any() else spans
    exposed = length(alone)
    # Without steps the window counts as one.
    by_step = _by_step(alone, window) or [(exposed, window.ns)]
    return DataLoading(
        ns=spent,
        exposed_ns=exposed,
        share=window.share(exposed),
        calls=len(rows),
        in_process=any(IN_PROCESS in trace.names[i] for i in trace.names_of(rows).tolist()),
        longest=longest(trace, rows, window.steps),
        usual_ns=round(median(part for part, _ in by_step)),
        usual_share=median(part / max(whole, 1) for part, whole in by_step),
        stalled_steps=sum(part >= WARN_SHARE * whole for part, whole in by_step),
    )


def _by_step(exposed: tuple[Int64, Int64], window: StepWindow) -> list[tuple[int, int]]:
    """(exposed, length) of each step, ns."""
    steps = window.steps
    inside = covered(exposed, steps.start, steps.end)
    return list(zip(inside.tolist(), (steps.end - steps.start).tolist(), strict=True))


def loader_rows(trace: TraceColumns, window: StepWindow) -> Int64:
    """The loader's annotations on the host that reach into the window."""
    rows = trace.rows_named(lambda name: PHASES["data loading"].match(name) is not None)
    keep = (trace.end[rows] > window.begin) & (trace.ts[rows] < window.end)
    # The profiler copies annotations to the device's rows: count those of the host.
    return np.asarray(rows[keep & ~trace.in_category("gpu_user_annotation")[rows]], dtype=np.int64)


TABLE = RowTable(INT("step", "loader_ns", "step_ns"), FLOAT("loader_percent"))


def rows(trace: TraceColumns) -> Rows:
    """Time in the data loader by step, as JSON rows."""
    window = window_of(trace)
    load_rows = loader_rows(trace, window)
    spans = union(trace.ts[load_rows], trace.end[load_rows])
    steps = window.steps
    begins = steps.start.tolist() if len(steps) else [window.begin]
    ends = steps.end.tolist() if len(steps) else [window.end]
    numbers: list[int | None] = list(steps.number.tolist()) if len(steps) else [None]
    rows = []
    for number, begin, end in zip(numbers, begins, ends, strict=True):
        step_window = StepWindow(begin, end, steps)
        spent = step_window.time_in(*spans)
        rows.append((number, spent, end - begin, 100 * spent / step_window.ns))
    return TABLE.of(rows)
