"""What one rank does more of than the others: the phase, and the operation inside it.

Operations are compared by self time, the time an event is on its thread (or stream) without the events it contains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from analysis.traces.collectives import is_communication
from analysis.traces.columns import Int64, TraceColumns
from analysis.traces.steps import PHASES, StepBreakdown, Steps, is_step

NAMED_SHARE = 0.3
"""An operation is named when it explains at least so much of the extra time (own: below, it would mislead)."""
MAX_NAME = 80
IDLE_FLOOR_MS = 0.05
"""Below this a ratio to the others' time says nothing and is left out."""


@dataclass(frozen=True)
class ExtraWork:
    """Milliseconds per step of a rank in one phase or operation, against the median of what it is compared with."""

    name: str
    own_ms: float
    others_ms: float

    @property
    def extra_ms(self) -> float:
        """The difference."""
        return self.own_ms - self.others_ms

    @property
    def ratio(self) -> float | None:
        """Own over the others'; None where the others do next to nothing."""
        return self.own_ms / self.others_ms if self.others_ms >= IDLE_FLOOR_MS else None


def extra_phase(own: StepBreakdown, others: Sequence[StepBreakdown]) -> ExtraWork | None:
    """The phase with the most extra time, or None when no phase is longer than on the others."""
    compared = [ExtraWork(p, own.phases[p], median(o.phases[p] for o in others)) for p in PHASES] if others else []
    worst = max(compared, key=lambda work: work.extra_ms, default=None)
    return worst if worst is not None and worst.extra_ms > 0 else None


def extra_operation(own: dict[str, float], others: Sequence[dict[str, float]], explained_ms: float) -> ExtraWork | None:
    """The operation with the most extra self time, if it explains enough of `explained_ms`."""
    compared = [ExtraWork(n, ms, median(o.get(n, 0.0) for o in others)) for n, ms in own.items()] if others else []
    worst = max(compared, key=lambda work: work.extra_ms, default=None)
    if worst is None or worst.extra_ms <= 0 or worst.extra_ms < NAMED_SHARE * explained_ms:
        return None
    return ExtraWork(readable(worst.name), worst.own_ms, worst.others_ms)


def self_ms_by_name(trace: TraceColumns, steps: Steps) -> dict[str, float]:
    """Mean self time per step of every operation that starts within a step; waiting in collectives left out."""
    if not len(steps):
        return {}
    place = np.searchsorted(steps.start, trace.ts, side="right") - 1
    inside = (place >= 0) & (trace.ts < steps.end[np.maximum(place, 0)])
    named = np.asarray([not _is_frame(name) for name in trace.names], dtype=np.bool_)
    device = trace.in_category("gpu_user_annotation", "trace", "overhead")
    rows = np.flatnonzero(inside & ~device)
    own = _self_times(trace, rows)
    counted = named[trace.name[rows]]
    sums = np.bincount(trace.name[rows][counted], weights=own[counted], minlength=len(trace.names))
    return {trace.names[i]: float(sums[i]) / 1e6 / len(steps) for i in np.flatnonzero(sums > 0).tolist()}


def readable(name: str) -> str:
    """An operation's name as it may stand in a sentence: printable, one line, not too long."""
    clean = "".join(c if c.isprintable() and c not in "`<>" else " " for c in name[: MAX_NAME + 1])
    return clean if len(clean) <= MAX_NAME else clean[: MAX_NAME - 1] + "…"


def _is_frame(name: str) -> bool:
    """Steps, phases and collectives are told apart elsewhere and explain nothing by themselves."""
    return is_step(name) or is_communication(name) or any(p.match(name) for p in PHASES.values())


def _self_times(trace: TraceColumns, rows: Int64) -> Int64:
    """Self time of each row: its length less that of the events directly inside it on the same lane."""
    order = np.lexsort((-trace.dur[rows], trace.ts[rows], trace.lane[rows]))
    lanes, starts, ends = trace.lane[rows].tolist(), trace.ts[rows].tolist(), trace.end[rows].tolist()
    own = trace.dur[rows].copy()
    stack: list[int] = []
    for i in order.tolist():
        while stack and (lanes[stack[-1]] != lanes[i] or ends[stack[-1]] <= starts[i]):
            stack.pop()
        if stack:
            own[stack[-1]] -= min(ends[i], ends[stack[-1]]) - starts[i]
        stack.append(i)
    return np.asarray(np.maximum(own, 0), dtype=np.int64)
