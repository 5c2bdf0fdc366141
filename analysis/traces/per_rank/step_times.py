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

from faultline.analysis.traces.columns.disjoint_intervals import (
    Spans,
    covered,
    difference,
    nothing_in,
    union_of,
)
from faultline.analysis.traces.columns.events import Int64
from faultline.analysis.traces.columns.steps import PHASES, StepColumns
from faultline.analysis.traces.per_rank.activity import COMPUTING, DATA, Activity

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
