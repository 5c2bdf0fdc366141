"""Everything that comparing the ranks of one job tells, and why what is missing is missing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

import numpy as np

from faultline.analysis.traces.across_ranks.blame import MIN_STEPS, Blame, RankBlame, blame
from faultline.analysis.traces.across_ranks.kernel_speed import RankSpeed, rank_speeds
from faultline.analysis.traces.across_ranks.matching import (
    MAX_IMPOSSIBLE,
    Clocks,
    Matched,
    aligned,
    matched_collectives,
)
from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.across_ranks.step_breakdown import (
    ExtraWork,
    OutlierStep,
    RankSteps,
    SlowStep,
    extra_operation,
    extra_part,
    outlier_steps,
    rank_steps,
    slow_steps,
)
from faultline.analysis.traces.across_ranks.wait_transfer import (
    AllIdle,
    AllReduceOverlap,
    CollectiveTable,
    Exposure,
    all_reduce_overlap,
    collective_table,
    exposures,
    idle_together,
    rank_table,
    uses_fsdp,
)
from faultline.analysis.wording.phrases import counted

# Which ranks of a job are there to be compared: one summary each, what is missing, what two files
# claim.

NEVER = 10**9
"""Steps of ranks that were captured at other times get numbers that no other rank has."""
MAX_NAMED = 1_000
"""Missing ranks that are named one by one."""


@dataclass(frozen=True)
class DifferentSteps:
    """A rank that recorded other steps than most."""

    rank: int
    missing: tuple[int, ...]
    """Steps that most ranks have and this one has not."""
    extra: tuple[int, ...]
    """Steps that most ranks do not have."""


@dataclass(frozen=True)
class Participants:
    """The ranks of one job."""

    ranks: tuple[RankSummary, ...]
    """One per rank, by rank: of several files of a rank the one that starts last."""
    world_size: int | None
    """The largest that any trace names."""
    missing_count: int
    """Ranks of the world without a trace."""
    missing: tuple[int, ...]
    """Their numbers, the first MAX_NAMED."""
    left_out: tuple[RankSummary, ...]
    """Summaries of ranks that another file stands for."""
    guessed: tuple[int, ...]
    """Ranks whose number comes from the file's name or the order of files, not from the trace."""
    steps: tuple[int, ...]
    """Steps that every rank recorded, in order; without those whose collectives a summary had no
    room for."""
    different_steps: tuple[DifferentSteps, ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The ranks' numbers."""
        return tuple(s.rank for s in self.ranks)

    def place_of(self, rank: int) -> int:
        """The rank's place in `ranks`; raises ValueError where it has no trace."""
        return self.numbers.index(rank)


def participants(summaries: Iterable[RankSummary]) -> Participants:
    """The ranks that can be compared. Raises ValueError where there is no summary."""
    by_rank: dict[int, list[RankSummary]] = defaultdict(list)
    for summary in summaries:
        by_rank[summary.rank].append(summary)
    if not by_rank:
        raise ValueError("no summaries to compare")
    latest: list[RankSummary] = []
    left_out: list[RankSummary] = []
    for _, rank_summaries in sorted(by_rank.items()):
        # The file that starts last wins; of equal starts the name decides, in every run alike.
        *earlier, last = sorted(rank_summaries, key=lambda s: (s.start_ns, s.file))
        latest.append(last)
        left_out += earlier
    chosen = _numbered_alike(latest)
    world = max((s.world_size for s in chosen if s.world_size), default=0)
    # Bound the scan: the world size comes from the trace and may be absurd.
    absent = (rank for rank in range(min(world, 10_000_000)) if rank not in by_rank)
    return Participants(
        ranks=chosen,
        world_size=world or None,
        missing_count=max(world - sum(rank < world for rank in by_rank), 0),
        missing=tuple(islice(absent, MAX_NAMED)),
        left_out=tuple(left_out),
        guessed=tuple(s.rank for s in chosen if s.rank_source != "distributedInfo"),
        steps=_in_common(chosen),
        different_steps=_different_steps(chosen),
    )


def _numbered_alike(ranks: Sequence[RankSummary]) -> tuple[RankSummary, ...]:
    """Inferred steps are numbered from 0 on each rank: number them as the first rank's that run at
    the same time."""
    first = next((s for s in ranks if s.steps.inferred), None)
    if first is None:
        return tuple(ranks)
    shifts = [_shift(s, first, place) if s.steps.inferred else 0 for place, s in enumerate(ranks)]
    # Start from the lowest shift, so that no step number turns negative.
    lowest = min(shifts)
    return tuple(
        _renumbered(s, shift - lowest) if s.steps.inferred else s
        for s, shift in zip(ranks, shifts, strict=True)
    )


def _shift(rank_summary: RankSummary, first: RankSummary, place: int) -> int:
    """Median difference between the first rank's step numbers and the rank's own at the same
    moments."""
    if rank_summary is first:
        return 0
    # Compare at the middle of each step: its edges may fall into a neighbouring step.
    middle = rank_summary.steps.start + (rank_summary.steps.end - rank_summary.steps.start) // 2
    there = first.work_steps.position_of(middle)
    inside = there >= 0
    if not inside.any():
        return NEVER * (place + 1)
    return int(np.median(first.steps.number[there[inside]] - rank_summary.steps.number[inside]))


def _renumbered(summary: RankSummary, shift: int) -> RankSummary:
    calls, operations = summary.collectives, summary.operations
    return replace(
        summary,
        steps=replace(summary.steps, number=summary.steps.number + shift),
        operations=replace(operations, steps=operations.steps + shift),
        collectives=replace(calls, step=np.where(calls.step >= 0, calls.step + shift, -1)),
    )


def _in_common(ranks: Sequence[RankSummary]) -> tuple[int, ...]:
    shared = set.intersection(*(_comparable(s) for s in ranks))
    return tuple(n for n in ranks[0].steps.number.tolist() if n in shared)


def _comparable(summary: RankSummary) -> set[int]:
    """The rank's steps; where collectives were cut, those whose collectives were kept."""
    numbers = set(summary.steps.number.tolist())
    return numbers & set(summary.collectives.step.tolist()) if summary.collectives.cut else numbers


def _different_steps(ranks: Sequence[RankSummary]) -> tuple[DifferentSteps, ...]:
    sets = [frozenset(s.steps.number.tolist()) for s in ranks]
    usual = Counter(sets).most_common(1)[0][0]
    return tuple(
        DifferentSteps(s.rank, tuple(sorted(usual - numbers)), tuple(sorted(numbers - usual)))
        for s, numbers in zip(ranks, sets, strict=True)
        if numbers != usual
    )


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
