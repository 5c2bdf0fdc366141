"""Everything that comparing the ranks of one job tells, and why what is missing is missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from faultline.analysis.traces.across_ranks.blame import MIN_STEPS, Blame, RankBlame, blame
from faultline.analysis.traces.across_ranks.clocks import MAX_IMPOSSIBLE, Clocks, aligned
from faultline.analysis.traces.across_ranks.extra_work import ExtraWork, extra_operation, extra_part
from faultline.analysis.traces.across_ranks.idle_together import AllIdle, idle_together
from faultline.analysis.traces.across_ranks.kernel_speed import RankSpeed, rank_speeds
from faultline.analysis.traces.across_ranks.matching import Matched, matched_collectives
from faultline.analysis.traces.across_ranks.overlap import (
    AllReduceOverlap,
    all_reduce_overlap,
    uses_fsdp,
)
from faultline.analysis.traces.across_ranks.participants import Participants, participants
from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.across_ranks.slow_steps import (
    OutlierStep,
    SlowStep,
    outlier_steps,
    slow_steps,
)
from faultline.analysis.traces.across_ranks.step_breakdown import RankSteps, rank_steps
from faultline.analysis.traces.across_ranks.wait_transfer import (
    CollectiveTable,
    Exposure,
    collective_table,
    exposures,
    rank_table,
)
from faultline.analysis.wording.phrases import counted

PRESENT = 0.5
"""With fewer of a job's ranks the last to arrive is most likely one without a trace, and nobody is
blamed (our choice)."""


@dataclass(frozen=True)
class WhyNot:
    """Why ranks cannot be blamed; the numbers are in the sentence."""

    sentence: str
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class RankComparison:
    """One job's ranks compared. Tuples with one entry per rank are in the participants' order."""

    job: Participants
    matched: Matched
    """In the first rank's time."""
    clocks: Clocks
    blame: Blame
    steps: tuple[RankSteps, ...]
    """Of the steps that all ranks recorded; where there are none, each rank's own."""
    collectives: CollectiveTable
    exposures: tuple[tuple[Exposure, ...], ...]
    all_reduce: tuple[AllReduceOverlap | None, ...]
    fsdp: bool
    idle: AllIdle
    speeds: tuple[RankSpeed, ...]
    why_not: WhyNot | None
    """None where ranks can be compared."""

    @property
    def comparable(self) -> bool:
        """Whether ranks can be blamed: several of them, enough steps, matched collectives, clocks
        that agree."""
        return self.why_not is None

    @property
    def stragglers(self) -> tuple[RankBlame, ...]:
        """Ranks that delay the job persistently, worst first; none where ranks cannot be
        compared."""
        return self.blame.stragglers if self.comparable else ()

    @cached_property
    def slow_steps(self) -> tuple[SlowStep, ...]:
        """Outlier steps that one rank delayed, worst first; none where ranks cannot be compared."""
        return slow_steps(self.blame, self.job.ranks) if self.comparable else ()

    @cached_property
    def outlier_steps(self) -> tuple[OutlierStep, ...]:
        """Steps that were long on the median rank."""
        return outlier_steps(self.job.ranks, self.job.steps)

    @property
    def slow_devices(self) -> tuple[RankSpeed, ...]:
        """Ranks whose device takes longer for most kernels, the slowest first."""
        return tuple(sorted((s for s in self.speeds if s.slow), key=lambda s: -s.ratio))

    def extra_part(self, rank: int) -> ExtraWork | None:
        """The part of the step in which the rank spends more than the median of the others."""
        place = self.job.place_of(rank)
        return extra_part(self.steps[place], [s for i, s in enumerate(self.steps) if i != place])

    def extra_operation(self, rank: int, explained_ms: float) -> ExtraWork | None:
        """The operation in which it does, where one explains enough of the time."""
        common = set(self.job.steps)
        place = self.job.place_of(rank)
        rank_times = self.job.ranks[place].operations.per_step(common)
        other_rank = [
            s.operations.per_step(common) for i, s in enumerate(self.job.ranks) if i != place
        ]
        return extra_operation(rank_times, other_rank, explained_ms)

    def speed_of(self, rank: int) -> RankSpeed | None:
        """How fast the rank's device is; None where its kernels cannot be compared."""
        return next((s for s in self.speeds if s.rank == rank), None)


def compare(summaries: Iterable[RankSummary]) -> RankComparison:
    """Compare one job's ranks. Raises ValueError where there is no summary."""
    job = participants(summaries)
    ranks = job.ranks
    matched, clocks = aligned(matched_collectives(ranks), ranks)
    charged = blame(ranks, matched, clocks.offset, job.steps)
    common = set(job.steps)
    steps = rank_steps(ranks, matched, clocks)
    return RankComparison(
        job=job,
        matched=matched,
        clocks=clocks,
        blame=charged,
        steps=tuple(s.only(common) for s in steps) if common else steps,
        collectives=_collectives(job, matched, clocks),
        exposures=tuple(exposures(s) for s in ranks),
        all_reduce=tuple(all_reduce_overlap(s) for s in ranks),
        fsdp=uses_fsdp(ranks),
        idle=idle_together(ranks, clocks.offset),
        speeds=rank_speeds(ranks),
        why_not=_why_not(job, matched, clocks, charged),
    )


def _collectives(job: Participants, matched: Matched, clocks: Clocks) -> CollectiveTable:
    # One rank has no counterpart to match, so tabulate its own calls.
    if len(job.ranks) == 1:
        return rank_table(job.ranks[0])
    return collective_table(matched, job.ranks, job.world_size, clocks_agree=clocks.agree)


def _why_not(job: Participants, matched: Matched, clocks: Clocks, charged: Blame) -> WhyNot | None:
    # The order matters: a single rank would fail the later checks, too.
    count = len(job.ranks)
    if count < 2:
        return WhyNot("the trace of one rank alone cannot show which rank delays the others")
    if job.world_size and count < PRESENT * job.world_size:
        phrase = f"traces of {count} of {job.world_size} ranks do not show which rank arrives last"
        return WhyNot(phrase, {"ranks": float(count), "world_size": float(job.world_size)})
    if charged.step_count < MIN_STEPS:
        shared = counted(charged.step_count, "step")
        phrase = (
            f"the traces have {shared} in common; {MIN_STEPS} are needed to tell a straggler "
            f"from an outlier"
        )
        return WhyNot(
            phrase, {"steps": float(charged.step_count), "steps_needed": float(MIN_STEPS)}
        )
    if not len(matched):
        # Name the missing device activity: it, not a mismatch, is why nothing matches.
        launched = sum(s.collectives.launched_only for s in job.ranks)
        if launched:
            return WhyNot("the traces hold launches of collectives but not the accelerators' work")
        return WhyNot(
            "no collective of one rank has a counterpart on every other rank in the traces"
        )
    if clocks.agree:
        return None
    percent, allowed = round(clocks.impossible * 100, 1), MAX_IMPOSSIBLE * 100
    phrase = (
        f"{percent:g} % of the collectives end on one rank before another has entered: the clocks "
        f"of the traces do not "
        f"agree, or they are not of the same steps ({allowed:g} % is the limit)"
    )
    return WhyNot(phrase, {"percent": percent, "percent_allowed": allowed})
