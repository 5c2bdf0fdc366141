"""Long times in which one rank did nothing, and what its host did meanwhile.

On a rank with an accelerator: nothing ran on any stream. On a rank without one: no operator and no
collective ran.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
from faultline.analysis.traces.columns.intervals import Spans, clip, difference
from faultline.analysis.traces.columns.steps import StepColumns, is_step
from faultline.analysis.traces.per_rank.activity import Activity

LONG_NS = 1_000_000
"""Gaps of 1 ms are long (nsys-ai's rule for GPU gaps)."""
MAX_INTERVALS = 256
"""Intervals kept: the longest."""
MAX_NAMED = 32
"""Of these the longest whose host activity is reported."""
NAMED_SHARE = 0.5
"""The host's activity is the innermost event that fills this much of the interval (our choice)."""
MAX_NAME = 200


@dataclass(frozen=True, eq=False)
class LongIdle:
    """Idle intervals of at least LONG_NS, by start."""

    start: Int64
    end: Int64
    host: tuple[str, ...]
    """What the host did for most of it; "" where unknown."""
    cut: int = 0
    cut_ns: int = 0
    """How many and how much more there was."""

    def __len__(self) -> int:
        return len(self.start)


def long_idle(trace: TraceColumns, steps: StepColumns, activity: Activity) -> LongIdle:
    """Idle intervals from the first step (or the first work) to the last. O(events x named
    intervals)."""
    begin, end = _window(steps, activity.busy)
    whole = (np.asarray([begin], dtype=np.int64), np.asarray([end], dtype=np.int64))
    starts, ends = (
        difference(whole, clip(*activity.busy, begin, end))
        if end > begin
        else (whole[0][:0], whole[1][:0])
    )
    long = np.flatnonzero(ends - starts >= LONG_NS)
    by_length = long[np.argsort(starts[long] - ends[long], kind="stable")]
    longest, cut = np.sort(by_length[:MAX_INTERVALS]), by_length[MAX_INTERVALS:]
    named = set(by_length[:MAX_NAMED].tolist())
    is_candidate: Bool = ~trace.on_device & ~trace.in_category(
        "gpu_user_annotation", "trace", "overhead"
    )
    # A shorter event cannot fill enough of any long interval.
    is_candidate &= trace.dur >= int(LONG_NS * NAMED_SHARE)
    candidates = np.flatnonzero(is_candidate)
    return LongIdle(
        start=starts[longest],
        end=ends[longest],
        host=tuple(
            _doing(trace, candidates, int(starts[i]), int(ends[i])) if i in named else ""
            for i in longest.tolist()
        ),
        cut=len(cut),
        cut_ns=int((ends[cut] - starts[cut]).sum()),
    )


def _window(steps: StepColumns, busy: Spans) -> tuple[int, int]:
    if len(steps):
        return int(steps.start.min()), int(steps.end.max())
    return (int(busy[0][0]), int(busy[1][-1])) if len(busy[0]) else (0, 0)


def _doing(trace: TraceColumns, rows: Int64, begin: int, end: int) -> str:
    """The shortest of the host's events that fill most of the interval; else the one that fills
    most."""
    shared = np.minimum(trace.end[rows], end) - np.maximum(trace.ts[rows], begin)
    filling = rows[shared >= NAMED_SHARE * (end - begin)]
    filling = filling[np.argsort(trace.dur[filling], kind="stable")]
    names = (trace.name_of(row) for row in filling.tolist())
    return next((name[:MAX_NAME] for name in names if not is_step(name)), "")
