"""Where each step of one rank went: every nanosecond of the step belongs to one part.

On a rank with an accelerator the parts are what its streams did, in this order: computation (by the phase whose call
launched the kernel), communication that no computation hides, copies that neither hides, and idle time, of which that
during data loading on the host is data loading. On a rank without one they are what the host did: communication that
no operator ran beside, then the phases. Across ranks communication is told apart into waiting and transfer
(analysis/traces/across_ranks/step_breakdown.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from analysis.traces.columns import Int64, TraceColumns
from analysis.traces.device import Kind, kinds, launched_by
from analysis.traces.intervals import union
from analysis.traces.per_rank.collective_calls import collective_rows
from analysis.traces.spans import Spans, covered, difference, nothing_in, union_of
from analysis.traces.steps import PHASES, Steps, phase_spans

COMMUNICATION, COPIES, IDLE, OTHER = "communication", "copies", "idle", "other"
PARTS = (*PHASES, COMMUNICATION, COPIES, IDLE, OTHER)
"""Parts of a step, in the order of a stacked chart. `other` is computation, or the host's time, outside every phase."""
DATA = "data loading"
_COMPUTING = ("backward pass", "optimizer", "forward pass")
MAX_STEPS = 512
"""Most steps kept of one rank (own: a profile has tens)."""

_OPERATOR = re.compile(r"^(?!c10d|_c10d|autograd|torch::autograd|FSDP|nccl|gloo|profiler|record_)\w+::")
"""Operators that compute. Frames of autograd and of collectives contain waiting."""


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

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, eq=False)
class Activity:
    """What one rank did when: disjoint intervals in order."""

    computation: Spans
    communication: Spans
    copies: Spans
    data: Spans
    """Data loading on the host."""
    phases: dict[str, Spans] = field(default_factory=dict)
    """On an accelerator the computation that each phase launched, else the phase's annotations."""
    accelerator: bool = False

    @property
    def busy(self) -> Spans:
        """Any of computation, communication, copies."""
        return union_of(self.computation, self.communication, self.copies)


def activity_of(trace: TraceColumns) -> Activity:
    """What the rank did when. O(events log events)."""
    rows = collective_rows(trace)
    communication = union(trace.ts[rows], trace.end[rows])
    host = {phase: union(*phase_spans(trace, phase)) for phase in PHASES}
    kind = kinds(trace)
    if not (kind != Kind.OTHER).any():
        return Activity(_operators(trace), communication, nothing_in(), host[DATA], host)
    spans = {k: union(trace.ts[kind == k], trace.end[kind == k]) for k in (Kind.COMPUTATION, Kind.MEMORY)}
    phases = _by_launch(trace, np.flatnonzero(kind == Kind.COMPUTATION), host)
    return Activity(spans[Kind.COMPUTATION], communication, spans[Kind.MEMORY], host[DATA], phases, True)


def step_times(trace: TraceColumns, steps: Steps, activity: Activity) -> StepTimes:
    """The parts of every step."""
    kept = Steps(steps.number[:MAX_STEPS], steps.start[:MAX_STEPS], steps.end[:MAX_STEPS])
    taken = _on_accelerator(activity) if activity.accelerator else _on_host(activity)
    parts = {part: covered(taken.get(part, nothing_in()), kept.start, kept.end) for part in PARTS}
    rest = IDLE if activity.accelerator else OTHER
    parts[rest] = kept.end - kept.start - sum(parts[p] for p in PARTS if p != rest)
    host = {phase: covered(union(*phase_spans(trace, phase)), kept.start, kept.end) for phase in PHASES}
    return StepTimes(kept.number, kept.start, kept.end, parts, host, len(steps) - len(kept))


def _on_host(activity: Activity) -> dict[str, Spans]:
    taken = {COMMUNICATION: difference(activity.communication, activity.computation)}
    so_far = taken[COMMUNICATION]
    for phase in (DATA, *_COMPUTING):
        taken[phase] = difference(activity.phases[phase], so_far)
        so_far = union_of(so_far, taken[phase])
    return taken


def _on_accelerator(activity: Activity) -> dict[str, Spans]:
    taken: dict[str, Spans] = {}
    so_far = nothing_in()
    for phase in _COMPUTING:
        taken[phase] = difference(activity.phases.get(phase, nothing_in()), so_far)
        so_far = union_of(so_far, taken[phase])
    for part, spans in (
        (OTHER, activity.computation),
        (COMMUNICATION, activity.communication),
        (COPIES, activity.copies),
        (DATA, activity.data),
    ):
        taken[part] = difference(spans, so_far)
        so_far = union_of(so_far, taken[part])
    return taken


def _by_launch(trace: TraceColumns, rows: Int64, host: dict[str, Spans]) -> dict[str, Spans]:
    launch = launched_by(trace)[rows]
    moment = np.where(launch >= 0, trace.ts[np.maximum(launch, 0)], np.iinfo(np.int64).min)
    found = {}
    for phase in _COMPUTING:
        starts, ends = host[phase]
        place = np.searchsorted(starts, moment, side="right") - 1
        inside = (place >= 0) & (moment < ends[np.maximum(place, 0)]) if len(starts) else np.zeros(len(rows), bool)
        found[phase] = union(trace.ts[rows[inside]], trace.end[rows[inside]])
    return found


def _operators(trace: TraceColumns) -> Spans:
    by_name = np.asarray([_OPERATOR.match(name) is not None for name in trace.names], dtype=np.bool_)
    wanted = by_name[trace.name] if len(by_name) else np.zeros(len(trace), dtype=np.bool_)
    wanted &= trace.in_category("cpu_op", "operator")
    return union(trace.ts[wanted], trace.end[wanted])
