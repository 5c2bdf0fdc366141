"""Which rank makes the others wait: time-weighted blame over matched collectives.

For each collective the time from the second-last to the last arrival is charged to the last rank; charges are united
per rank (two buckets in flight wait once) and divided by wall time. Counting late arrivals instead of time names the
wrong rank where one long pause meets much small jitter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.traces.collectives import Collectives, clock_offsets, impossible_share, matched_collectives
from analysis.traces.columns import Int64, TraceColumns
from analysis.traces.intervals import clip, total
from analysis.traces.steps import Steps, common_steps, steps_of

BLAME_SHARE = 0.20
"""Share of wall time charged to one rank from which it may be a straggler (TraceML's critical straggler score)."""
STEP_SHARE = 0.20
"""Share of one step's time from which the step counts as held up by the rank (same source)."""
PERSISTENCE = 0.50
"""Share of steps held up from which it is a straggler and no outlier: stragglers were seen at 7-8 of 8 steps, healthy
jobs and single pauses at 0-3 of 8, on 18 labelled recordings."""
MIN_STEPS = 3
"""Fewer steps tell no persistence."""
SLOW_STEP_RATIO = 1.5
"""A step of so many medians is an outlier (nsys-ai's iteration spike)."""
SLOW_STEP_BLAME = 0.5
"""Of an outlier step, at least so much is charged to the rank that is named for it."""
SLOW_STEP_EXTRA = 5.0
"""And at least so many median steps were lost (own: scheduler jitter of an oversubscribed healthy machine reached 3,
a recorded checkpoint pause 54)."""
CLOCK_TOLERANCE_NS = 1_000_000
MAX_IMPOSSIBLE = 0.2
"""Share of collectives left before all entered from which clocks or matching are not trusted."""


@dataclass(frozen=True)
class RankBlame:
    """What one rank is charged with."""

    rank: int
    blame_ns: int
    share: float
    """Of wall time."""
    steps_blamed: int
    step_blame_ms: dict[int, float]
    """By step number."""


@dataclass(frozen=True)
class SlowStep:
    """One step that took far longer than the others, and the rank that held it up."""

    rank: int
    step: int
    step_ms: float
    median_ms: float
    blame_ms: float


@dataclass(frozen=True)
class BlameAnalysis:
    """Blame of all ranks over the steps they have in common."""

    traces: tuple[TraceColumns, ...]
    steps: tuple[Steps, ...]
    collectives: Collectives
    clock_offset_ns: Int64
    impossible: float
    wall_ns: int
    ranks: tuple[RankBlame, ...]

    @property
    def comparable(self) -> bool:
        """Whether ranks can be compared: several of them, enough steps, matched collectives, clocks that agree."""
        enough = len(self.traces) > 1 and self.step_count >= MIN_STEPS and len(self.collectives) > 0
        return enough and self.impossible <= MAX_IMPOSSIBLE

    @property
    def step_count(self) -> int:
        """Steps that all ranks recorded."""
        return len(self.steps[0]) if self.steps else 0

    @property
    def median_step_ms(self) -> float:
        """Median over ranks and steps."""
        return float(np.median(np.concatenate([s.ms for s in self.steps]))) if self.step_count else 0.0

    @property
    def stragglers(self) -> tuple[RankBlame, ...]:
        """Ranks that hold up the job persistently, worst first."""
        if not self.comparable:
            return ()
        held = [b for b in self.ranks if b.share >= BLAME_SHARE and b.steps_blamed >= PERSISTENCE * self.step_count]
        return tuple(sorted(held, key=lambda b: -b.share))

    def waits_of(self, rank: int) -> tuple[Int64, Int64]:
        """The rank's waits at collectives: from its own arrival to the last one's, on its own clock."""
        column = self.collectives.ranks.index(rank)
        offset = self.clock_offset_ns[column]
        own, last = self.collectives.start[:, column], self.collectives.start.max(axis=1)
        return own + offset, np.maximum(own, np.minimum(last, self.collectives.end[:, column])) + offset


def blame(traces: Sequence[TraceColumns]) -> BlameAnalysis:
    """Charge every matched collective's last arrival. One trace per rank, at least one."""
    own_steps = common_steps([steps_of(t) for t in traces])
    matched = matched_collectives(traces, own_steps)
    offsets = clock_offsets(matched, [t.host for t in traces])
    matched = replace(matched, start=matched.start - offsets, end=matched.end - offsets)
    steps = [Steps(s.number, s.start - o, s.end - o) for s, o in zip(own_steps, offsets.tolist(), strict=True)]
    wall = _wall(steps, matched)
    return BlameAnalysis(
        traces=tuple(traces),
        steps=tuple(own_steps),
        collectives=matched,
        clock_offset_ns=offsets,
        impossible=impossible_share(matched, CLOCK_TOLERANCE_NS),
        wall_ns=wall[1] - wall[0],
        ranks=tuple(_rank_blame(matched, column, steps[column], wall) for column in range(len(traces))),
    )


def slow_steps(analysis: BlameAnalysis) -> tuple[SlowStep, ...]:
    """Outlier steps that one rank held up, worst first.

    A pause of one rank in step k shows on the other ranks in the step in which they wait for it, so steps are compared
    on the rank that is named.
    """
    found: list[SlowStep] = []
    median = analysis.median_step_ms
    for charged, steps in zip(analysis.ranks, analysis.steps, strict=True):
        for number, step_ms in zip(steps.number.tolist(), steps.ms.tolist(), strict=True):
            lost = _blame_around(charged, number)
            enough = step_ms >= lost >= max(SLOW_STEP_BLAME * step_ms, SLOW_STEP_EXTRA * median)
            if step_ms >= SLOW_STEP_RATIO * median and enough:
                found.append(SlowStep(charged.rank, number, step_ms, median, lost))
    return tuple(sorted(found, key=lambda s: -s.blame_ms)) if analysis.comparable else ()


def _blame_around(charged: RankBlame, step: int) -> float:
    """Blame of a step or of the next, where a pause after the step's own collectives is felt."""
    return max(charged.step_blame_ms.get(step, 0.0), charged.step_blame_ms.get(step + 1, 0.0))


def _wall(steps: Sequence[Steps], matched: Collectives) -> tuple[int, int]:
    """From the first step's start to the last one's end over all ranks; without steps, of the collectives."""
    if steps and len(steps[0]):
        return min(int(s.start.min()) for s in steps), max(int(s.end.max()) for s in steps)
    return (int(matched.start.min()), int(matched.end.max())) if len(matched) else (0, 0)


def _rank_blame(matched: Collectives, column: int, steps: Steps, wall: tuple[int, int]) -> RankBlame:
    starts, ends = _charges(matched, column)
    starts, ends = clip(starts, ends, *wall)
    by_step = {}
    held = 0
    for number, begin, end in zip(steps.number.tolist(), steps.start.tolist(), steps.end.tolist(), strict=True):
        mine = (ends >= begin) & (ends < end)
        charged = total(starts[mine], ends[mine])
        by_step[int(number)] = charged / 1e6
        held += charged >= STEP_SHARE * (end - begin) and charged > 0
    whole = total(starts, ends)
    return RankBlame(matched.ranks[column], whole, whole / max(wall[1] - wall[0], 1), int(held), by_step)


def _charges(matched: Collectives, column: int) -> tuple[Int64, Int64]:
    """[second-last, last) arrival of the collectives at which this rank came last."""
    if matched.start.shape[1] < 2 or not len(matched):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    last = np.argmax(matched.start, axis=1) == column
    ordered = np.sort(matched.start[last], axis=1)
    return ordered[:, -2], ordered[:, -1]
