"""Where each step of one rank went: every nanosecond of the step belongs to one part.

On a rank with an accelerator the parts are what its streams did, in this order: computation (by the
phase whose call launched the kernel), communication that no computation hides, copies that neither
hides, and idle time. Idle time during data loading on the host counts as data loading. On a rank
without one they are what the host did: communication that no operator ran beside, then the phases.
Across ranks communication is split into waiting and transfer
(analysis/traces/across_ranks/step_breakdown.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
from faultline.analysis.traces.columns.intervals import (
    Spans,
    clip,
    covered,
    difference,
    nothing_in,
    total,
    union,
    union_of,
)
from faultline.analysis.traces.columns.steps import PHASES, StepColumns, steps_of
from faultline.analysis.traces.doctor.diagnosis import EventReference
from faultline.analysis.traces.per_rank.activity import COMPUTING, DATA, Activity
from faultline.analysis.traces.readable import readable

__all__ = [
    "COMMUNICATION",
    "COPIES",
    "DATA",
    "IDLE",
    "MAX_STEPS",
    "OTHER",
    "PARTS",
    "StepTimes",
    "step_times",
]

COMMUNICATION, COPIES, IDLE, OTHER = "communication", "copies", "idle", "other"
PARTS = (*PHASES, COMMUNICATION, COPIES, IDLE, OTHER)
"""Parts of a step, in the order of a stacked chart. `other` is computation, or the host's time,
outside every phase."""
MAX_STEPS = 512
"""Most steps kept of one rank (our choice: a profile has tens)."""


@dataclass(frozen=True, eq=False)
class StepTimes:
    """One row per step, by start; ns."""

    number: Int64
    start: Int64
    end: Int64
    parts: dict[str, Int64]
    """By name of `PARTS`; they add up to `end - start`."""
    phases: dict[str, Int64]
    """Time in the host's annotations of each phase, waiting included."""
    cut: int = 0
    """Steps left out after the first ones."""
    inferred: bool = False
    """Steps lie between optimizer steps; their numbers are not the job's."""

    def __len__(self) -> int:
        return len(self.number)


def step_times(
    steps: StepColumns, activity: Activity, on_device: StepColumns | None = None
) -> StepTimes:
    """The parts of every step; `on_device` are the steps as the accelerator worked them off, those
    of the host else."""
    issued, work_steps = steps.first(MAX_STEPS), (on_device or steps).first(MAX_STEPS)
    taken = _on_accelerator(activity) if activity.accelerator else _on_host(activity)
    parts = {
        part: covered(taken.get(part, nothing_in()), work_steps.start, work_steps.end)
        for part in PARTS
    }
    rest = IDLE if activity.accelerator else OTHER
    # Take what remains, so that the parts add up exactly.
    parts[rest] = work_steps.end - work_steps.start - sum(parts[p] for p in PARTS if p != rest)
    host = {
        phase: covered(spans, issued.start, issued.end)
        for phase, spans in activity.annotated.items()
    }
    return StepTimes(
        work_steps.number,
        work_steps.start,
        work_steps.end,
        parts,
        host,
        len(steps) - len(work_steps),
        steps.inferred,
    )


def _on_host(activity: Activity) -> dict[str, Spans]:
    taken = {COMMUNICATION: difference(activity.communication, activity.computation)}
    so_far = taken[COMMUNICATION]
    for phase in (DATA, *COMPUTING):
        taken[phase] = difference(activity.annotated[phase], so_far)
        so_far = union_of(so_far, taken[phase])
    return taken


def _on_accelerator(activity: Activity) -> dict[str, Spans]:
    taken: dict[str, Spans] = {}
    # Each part gets only what no earlier part has claimed.
    so_far = nothing_in()
    for phase in COMPUTING:
        taken[phase] = difference(activity.launched[phase], so_far)
        so_far = union_of(so_far, taken[phase])
    for part, spans in (
        (OTHER, activity.computation),
        (COMMUNICATION, activity.communication),
        (COPIES, activity.copies),
        (DATA, activity.annotated[DATA]),
    ):
        taken[part] = difference(spans, so_far)
        so_far = union_of(so_far, taken[part])
    return taken


# The time of a rank's trace that is judged: its steps, or everything where the trace has none.


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
