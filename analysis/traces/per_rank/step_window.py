"""The time of a rank's trace that is judged: its steps, or everything where the trace has none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
from faultline.analysis.traces.columns.intervals import clip, total, union
from faultline.analysis.traces.columns.steps import StepColumns, steps_of
from faultline.analysis.traces.doctor.diagnosis import EventReference
from faultline.analysis.traces.readable import readable


@dataclass(frozen=True)
class StepWindow:
    """[begin, end) in ns, and the steps in it; a trace without steps is one step as long as
    itself."""

    begin: int
    end: int
    steps: StepColumns

    @property
    def ns(self) -> int:
        """Length, at least 1."""
        return max(self.end - self.begin, 1)

    @property
    def count(self) -> int:
        """Steps, at least 1."""
        return max(len(self.steps), 1)

    @property
    def has_steps(self) -> bool:
        """Whether the profiler marked steps."""
        return len(self.steps) > 0

    def share(self, ns: float) -> float:
        """Part of the window, 0 to 1."""
        return min(max(ns / self.ns, 0.0), 1.0)

    def holds(self, trace: TraceColumns) -> Bool:
        """Mask of the rows that start in the window."""
        return np.asarray((trace.ts >= self.begin) & (trace.ts < self.end), dtype=np.bool_)

    def clipped(self, starts: Int64, ends: Int64) -> tuple[Int64, Int64]:
        """The union of intervals, cut to the window."""
        return union(*clip(starts, ends, self.begin, self.end))

    def time_in(self, starts: Int64, ends: Int64) -> int:
        """ns of the window that the intervals cover."""
        return total(*clip(starts, ends, self.begin, self.end))


def window_of(trace: TraceColumns, steps: StepColumns | None = None) -> StepWindow:
    """The rank's steps, from the first one's start to the last one's end or to the end of the work
    launched in it."""
    steps = steps_of(trace) if steps is None else steps
    if len(steps):
        return StepWindow(int(steps.start.min()), _end(trace, steps), steps)
    work = ~trace.in_category("trace", "overhead", "python_function")
    if not work.any():
        return StepWindow(0, 0, steps)
    return StepWindow(int(trace.ts[work].min()), int(trace.end[work].max()), steps)


def _end(trace: TraceColumns, steps: StepColumns) -> int:
    """Kernels of the last step run on after it, for at most the longest step's time."""
    end, longest = int(steps.end.max()), int((steps.end - steps.start).max())
    device = trace.on_device & (trace.ts < end + longest)
    return max(end, min(int(trace.end[device].max()), end + longest)) if device.any() else end


def event_reference(
    trace: TraceColumns, row: int, steps: StepColumns | None = None
) -> EventReference:
    """Where a person finds the event of a row."""
    start = int(trace.ts[row])
    return EventReference(
        rank=trace.rank,
        file=trace.file,
        event=int(trace.event[row]),
        name=readable(trace.name_of(row)),
        start_ns=start,
        duration_ns=int(trace.dur[row]),
        step=steps.at(start) if steps is not None else None,
    )


def longest(
    trace: TraceColumns, rows: Int64, steps: StepColumns, count: int = 3
) -> tuple[EventReference, ...]:
    """The longest of some rows, longest first."""
    order = rows[np.argsort(-trace.dur[rows], kind="stable")][:count]
    return tuple(event_reference(trace, row, steps) for row in order.tolist())
