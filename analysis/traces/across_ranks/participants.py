"""Which ranks of a job are there to be compared: one summary each, what is missing, what two files
claim."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from faultline.analysis.traces.across_ranks.rank_summary import RankSummary

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
