"""Single steps that took far longer than the others: delayed by one rank, or slow on all of
them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.across_ranks.blame import MIN_STEPS, Blame
from faultline.analysis.traces.across_ranks.extra_work import ExtraWork, extra_operation
from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.doctor.diagnosis import EventReference
from faultline.analysis.traces.readable import readable

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
