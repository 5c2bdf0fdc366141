"""Where each rank's steps went, with communication split into waiting for others and
transfer.

A transfer beside which another rank of the group still computes is waiting, too: it is hidden where
the group's work is not done, and over before the group could go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from faultline.analysis.traces.across_ranks.blame import MIN_STEPS, Blame, transfers, waits_of
from faultline.analysis.traces.across_ranks.matching import Clocks, Matched, MatchedGroup
from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.columns.events import Int64
from faultline.analysis.traces.columns.intervals import (
    Spans,
    covered,
    difference,
    intersection,
    union_of,
)
from faultline.analysis.traces.columns.steps import PHASES
from faultline.analysis.traces.doctor.diagnosis import EventReference
from faultline.analysis.traces.per_rank import step_times
from faultline.analysis.traces.per_rank.step_times import COMMUNICATION, DATA, IDLE, OTHER
from faultline.analysis.traces.readable import readable

WAIT, TRANSFER = "communication wait", "communication transfer"
PARTS = (*PHASES, WAIT, TRANSFER, step_times.COPIES, IDLE, OTHER)
"""Parts of a step, in the order of a stacked chart."""
LOCAL_PARTS = tuple(p for p in PARTS if p not in (WAIT, TRANSFER))
"""Parts that lie at the rank itself."""
MAX_MEMBERS = 32
"""Of a group's ranks this many are asked whether they compute beside a transfer."""


@dataclass(frozen=True, eq=False)
class RankSteps:
    """One rank's steps; ns, one value per step."""

    rank: int
    number: Int64
    length: Int64
    parts: dict[str, Int64]
    """By name of `PARTS`; they add up to `length`."""

    def __len__(self) -> int:
        return len(self.number)

    @property
    def step_ms(self) -> float:
        """Mean length of a step."""
        return float(self.length.mean()) / 1e6 if len(self) else 0.0

    def ms(self, part: str) -> float:
        """Mean milliseconds per step of one part."""
        return float(self.parts[part].mean()) / 1e6 if len(self) else 0.0

    def share(self, part: str) -> float:
        """Share of the steps' time in one part."""
        whole = int(self.length.sum())
        return float(self.parts[part].sum()) / whole if whole else 0.0

    @property
    def data_share(self) -> float:
        """Share of the steps' time in data loading."""
        return self.share(DATA)

    def only(self, numbers: set[int]) -> RankSteps:
        """The steps with these numbers."""
        keep = np.isin(self.number, np.asarray(sorted(numbers), dtype=np.int64))
        return RankSteps(
            self.rank,
            self.number[keep],
            self.length[keep],
            {part: ns[keep] for part, ns in self.parts.items()},
        )


def rank_steps(
    ranks: Sequence[RankSummary], matched: Matched, clocks: Clocks
) -> tuple[RankSteps, ...]:
    """All steps of every rank. Without matched collectives all communication is transfer."""
    hidden = [
        (s.hidden.start - o, s.hidden.end - o)
        for s, o in zip(ranks, clocks.offset.tolist(), strict=True)
    ]
    # Without a common clock nobody can say who computed at the same moment.
    computed = {id(b): _computed(b, hidden) for b in matched.groups} if clocks.agree else {}
    return tuple(
        _of(summary, place, matched, clocks, computed) for place, summary in enumerate(ranks)
    )


def _computed(block: MatchedGroup, hidden: Sequence[Spans]) -> Spans:
    """When data moved in the group and one of its ranks (of MAX_MEMBERS, evenly chosen) computed
    beside it."""
    count = len(block.places)
    chosen = block.places[np.linspace(0, count - 1, min(count, MAX_MEMBERS)).astype(np.int64)]
    return intersection(transfers(block), union_of(*(hidden[place] for place in chosen.tolist())))


def _of(
    summary: RankSummary,
    place: int,
    matched: Matched,
    clocks: Clocks,
    computed: Mapping[int, Spans],
) -> RankSteps:
    steps, offset = summary.steps, int(clocks.offset[place])
    beside = [computed[id(block)] for block, _ in matched.of(place) if id(block) in computed]
    starts, ends = union_of(waits_of(place, matched, clocks_agree=clocks.agree), *beside)
    waiting = difference((starts + offset, ends + offset), summary.hidden.spans)
    communication = steps.parts[COMMUNICATION]
    # Waiting is part of the step's communication, so it cannot exceed that.
    wait = np.minimum(covered(waiting, steps.start, steps.end), communication)
    parts = {part: steps.parts[part] for part in LOCAL_PARTS} | {
        WAIT: wait,
        TRANSFER: communication - wait,
    }
    return RankSteps(
        summary.rank, steps.number, steps.end - steps.start, {part: parts[part] for part in PARTS}
    )


# What one rank does more of than the others: the part of the step, and the operation inside it.

NAMED_SHARE = 0.3
"""An operation is named when it explains at least this much of the extra time (our choice: below,
it would mislead)."""
IDLE_FLOOR_MS = 0.05
"""Below this a ratio to the others' time says nothing and is left out."""


@dataclass(frozen=True)
class ExtraWork:
    """Milliseconds per step of a rank in one part or operation, against the median of what it is
    compared with."""

    name: str
    rank_ms: float
    peer_ms: float

    @property
    def extra_ms(self) -> float:
        """The difference."""
        return self.rank_ms - self.peer_ms

    @property
    def ratio(self) -> float | None:
        """Own over the others'; None where the others do next to nothing."""
        return self.rank_ms / self.peer_ms if self.peer_ms >= IDLE_FLOOR_MS else None


def extra_part(rank_steps: RankSteps, peers: Sequence[RankSteps]) -> ExtraWork | None:
    """The part of the step with the most extra time; None when none is longer than on the others.

    Waiting and transfer are no part of it: they follow from what the rank itself does.
    """
    if not peers:
        return None
    compared = [ExtraWork(p, rank_steps.ms(p), median(o.ms(p) for o in peers)) for p in LOCAL_PARTS]
    worst = max(compared, key=lambda work: work.extra_ms)
    return worst if worst.extra_ms > 0 else None


def extra_operation(
    rank_times: dict[str, float], peer_times: Iterable[dict[str, float]], explained_ms: float
) -> ExtraWork | None:
    """The operation with the most extra self time, if it explains enough of `explained_ms`.

    `rank_times` and each of `peer_times` is ns per step by name (`OperationTimes.per_step`).
    """
    beside = list(peer_times)
    if not rank_times or not beside:
        return None
    compared = [
        # An operation that a peer never ran took 0 there.
        ExtraWork(n, ns / 1e6, median(o.get(n, 0.0) for o in beside) / 1e6)
        for n, ns in rank_times.items()
    ]
    worst = max(compared, key=lambda work: work.extra_ms)
    return worst if worst.extra_ms > 0 and worst.extra_ms >= NAMED_SHARE * explained_ms else None


# Single steps that took far longer than the others: delayed by one rank, or slow on all of them.

SLOW_STEP_RATIO = 1.5
"""A step of this many medians is an outlier (nsys-ai's iteration spike)."""
SLOW_STEP_BLAME = 0.5
"""Of an outlier step, at least so much is charged to the rank that is named for it."""
SLOW_STEP_EXTRA = 5.0
"""And at least this many median steps were lost (our choice: scheduler jitter of an oversubscribed
healthy machine reached 3, a recorded checkpoint pause 54)."""


@dataclass(frozen=True)
class SlowStep:
    """One step that took far longer than the others, and the rank that held it up."""

    rank: int
    step: int
    step_ns: int
    median_ns: float
    blame_ns: int
    operation: ExtraWork | None
    """What the rank did then and does not do in its other steps, where one operation explains the
    time."""
    idle_ns: int
    """The rank's longest time without work in the step; 0 for none of 1 ms."""
    idle_host: str
    """What its host did meanwhile; "" where unknown."""
    event: EventReference | None
    """The rank's event with the most self time in the step."""


@dataclass(frozen=True)
class OutlierStep:
    """A step whose length is out of the ordinary on most ranks: a fact, nobody is named."""

    step: int
    median_ns: float
    """Over the ranks, of this step."""
    usual_ns: float
    """Median over the other steps of the same."""

    @property
    def ratio(self) -> float:
        """This step over the usual."""
        return self.median_ns / self.usual_ns if self.usual_ns else 0.0


def slow_steps(blame: Blame, ranks: Sequence[RankSummary]) -> tuple[SlowStep, ...]:
    """Outlier steps that one rank delayed, worst first.

    A pause of one rank in step k shows on the other ranks in the step in which they wait for it, so
    steps are compared on the rank that is named.
    """
    if blame.step_count < MIN_STEPS:
        return ()
    median = blame.median_step_ns
    delayed_steps: list[SlowStep] = []
    for charged, steps, summary in zip(blame.ranks, blame.steps, ranks, strict=True):
        for number, took in zip(
            steps.number.tolist(), (steps.end - steps.start).tolist(), strict=True
        ):
            # Blame of a step or of the next, where a pause after the step's own collectives is
            # felt.
            lost = max(
                charged.step_blame_ns.get(number, 0), charged.step_blame_ns.get(number + 1, 0)
            )
            enough = took >= lost >= max(SLOW_STEP_BLAME * took, SLOW_STEP_EXTRA * median)
            if took >= SLOW_STEP_RATIO * median and enough:
                delayed_steps.append(_slow_step(summary, number, took, median, lost))
    return tuple(sorted(delayed_steps, key=lambda s: -s.blame_ns))


def outlier_steps(ranks: Sequence[RankSummary], common: Sequence[int]) -> tuple[OutlierStep, ...]:
    """Common steps of at least SLOW_STEP_RATIO times the usual length on the median rank, the
    longest first."""
    if len(common) < MIN_STEPS:
        return ()
    numbers = set(common)
    table = np.stack(
        [(steps.end - steps.start) for steps in (s.work_steps.only(numbers) for s in ranks)]
    )
    by_step = np.median(table, axis=0)
    outliers = []
    for place, (step, took) in enumerate(zip(common, by_step.tolist(), strict=True)):
        # Leave the step itself out: in a short run it would move the median it is measured by.
        usual = float(np.median(np.delete(by_step, place)))
        if usual and took >= SLOW_STEP_RATIO * usual:
            outliers.append(OutlierStep(int(step), took, usual))
    return tuple(sorted(outliers, key=lambda o: -o.ratio))


def _slow_step(summary: RankSummary, step: int, took: int, median: float, lost: int) -> SlowStep:
    other_steps = set(summary.steps.number.tolist()) - {step}
    during = summary.operations.per_step({step})
    place = int(np.flatnonzero(summary.steps.number == step)[0])
    begin, end = int(summary.steps.start[place]), int(summary.steps.end[place])
    idle = np.minimum(summary.idle.end, end) - np.maximum(summary.idle.start, begin)
    longest = int(np.argmax(idle)) if len(idle) and int(idle.max()) > 0 else -1
    return SlowStep(
        rank=summary.rank,
        step=step,
        step_ns=took,
        median_ns=median,
        blame_ns=lost,
        operation=extra_operation(during, [summary.operations.per_step(other_steps)], lost / 1e6),
        idle_ns=int(idle[longest]) if longest >= 0 else 0,
        idle_host=summary.idle.host[longest] if longest >= 0 else "",
        event=_longest_event(summary, step),
    )


def _longest_event(summary: RankSummary, step: int) -> EventReference | None:
    longest = summary.operations.longest
    for place in np.flatnonzero(longest.step == step).tolist():
        start = int(longest.start[place])
        return EventReference(
            rank=summary.rank,
            file=summary.file,
            event=int(longest.event[place]),
            name=readable(longest.names[int(longest.name[place])]),
            start_ns=start,
            duration_ns=int(longest.end[place]) - start,
            step=step,
        )
    return None
