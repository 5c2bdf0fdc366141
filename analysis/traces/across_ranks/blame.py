"""Which rank makes the others wait: time-weighted blame over matched collectives.

Each collective charges the time from the second-last to the last arrival to the last rank. Time in
which that rank itself waited is left out: for another group's collective, or for a send or receive
(the cause lies further up). So is time that the others did not lose because they computed: the
median of the waiting ranks counts. A rank is also charged with transfers that run while it computes
and the others have nothing left to do. Had it come in time, they would be hidden on the others, too
(with sharded parameters the next layer's all_gather is in the queue behind a late reduce_scatter).

Where several ranks are late at once, none of them is late alone: then each is charged from the
arrival of the median. Charges are united per rank (two buckets in flight wait once) and divided by
wall time. Counting late arrivals instead of time names the wrong rank where one long pause meets
much small jitter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from faultline.analysis.traces.across_ranks.matching import Matched, MatchedGroup
from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.columns.events import Int64
from faultline.analysis.traces.columns.intervals import (
    Spans,
    clip,
    difference,
    intersection,
    length,
    nothing_in,
    union,
    union_of,
)
from faultline.analysis.traces.columns.steps import StepColumns
from faultline.analysis.traces.judgement.thresholds import CRITICAL_SHARE, PERSISTENT
from faultline.analysis.traces.per_rank.collective_names import POINT_TO_POINT

MIN_STEPS = 3
"""Fewer steps show no persistence."""
EFFECT_FROM = CRITICAL_SHARE / 4
"""Of smaller blame it is not computed what it cost the others."""
MIN_TOGETHER = 5
"""In a group of fewer ranks two late ones are as many as the others, and nobody is late."""
MAX_VICTIMS = 32
"""Of the ranks that waited this many are checked, evenly chosen."""
MAX_EVIDENCE = 3


@dataclass(frozen=True)
class LateArrival:
    """A collective that a rank entered last, and for which others waited."""

    rank: int
    file: str
    event: int
    """Position in the file's list of events."""
    operation: str
    step: int | None
    start_ns: int
    """On the rank's own clock."""
    end_ns: int
    waited_ns: int
    """From the second-last arrival to this one."""


@dataclass(frozen=True)
class RankBlame:
    """What one rank is charged with."""

    rank: int
    blame_ns: int
    share: float
    """Of wall time."""
    last_arrivals: int
    """Collectives it entered last."""
    steps_blamed: int
    step_blame_ns: dict[int, int]
    """By step number."""
    clearest: tuple[LateArrival, ...]
    """Those with the most waiting, at most MAX_EVIDENCE."""


@dataclass(frozen=True, eq=False)
class Blame:
    """Blame of all ranks over the steps they have in common."""

    ranks: tuple[RankBlame, ...]
    """In the participants' order."""
    steps: tuple[StepColumns, ...]
    """The common steps of each rank, in the first rank's time."""
    wall_ns: int
    beyond_median: tuple[RankBlame, ...] = ()
    """Where no rank alone is late, those that come long after the median rank, charged from its
    arrival on."""

    @property
    def step_count(self) -> int:
        """Steps that all ranks recorded."""
        return len(self.steps[0]) if self.steps else 0

    @property
    def median_step_ns(self) -> float:
        """Median over ranks and steps; 0 without steps."""
        return (
            float(np.median(np.concatenate([s.end - s.start for s in self.steps])))
            if self.step_count
            else 0.0
        )

    @property
    def stragglers(self) -> tuple[RankBlame, ...]:
        """Ranks that delay the job persistently, worst first."""
        return self._persistent(self.ranks)

    @property
    def together(self) -> tuple[RankBlame, ...]:
        """Several ranks, fewer than half, that are late in the same steps: alone, none of
        them would make the others wait."""
        persistent = self._persistent(self.beyond_median)
        return persistent if 1 < len(persistent) < len(self.ranks) / 2 else ()

    def _persistent(self, charged: Sequence[RankBlame]) -> tuple[RankBlame, ...]:
        if self.step_count < MIN_STEPS:
            return ()
        least_steps = PERSISTENT * self.step_count
        rank_blames = [
            b for b in charged if b.share >= CRITICAL_SHARE and b.steps_blamed > least_steps
        ]
        rank_blames.sort(key=lambda blamed: -blamed.share)
        return tuple(rank_blames)


def blame(
    ranks: Sequence[RankSummary], matched: Matched, offset: Int64, common: Sequence[int]
) -> Blame:
    """Charge every matched collective's last arrival; `matched` in the first rank's time, `offset`
    of each rank's."""
    numbers = set(common)
    shifted_steps, hidden = [], []
    for summary, ahead in zip(ranks, offset.tolist(), strict=True):
        shifted_steps.append(_shifted(summary.work_steps.only(numbers), ahead))
        hidden.append((summary.hidden.start - ahead, summary.hidden.end - ahead))
    steps = tuple(shifted_steps)
    wall = _wall(steps, matched)
    whole = max(wall[1] - wall[0], 1)

    def late_of(place: int, rank_charges: Sequence[_Charge]) -> list[tuple[MatchedGroup, Spans]]:
        if not rank_charges:
            return []
        delayed = _delay_spans(ranks[place], place, int(offset[place]), rank_charges, matched)
        return _late(rank_charges, hidden[place], delayed)

    def charged(place: int, rank_charges: Sequence[_Charge], effect_from: float) -> RankBlame:
        parts = late_of(place, rank_charges)
        late = union_of(*(spans for _, spans in parts))
        if rank_charges and length(late) >= effect_from * whole:
            # What the median of the others of the group waited for the rank, in any group, and did
            # not compute beside. One delay costs different groups time at different moments (tensor
            # parallel ranks at once, their data parallel peers at the next gradients): no rank
            # waits for it twice.
            most = _most(rank_charges)
            other_place = most.block.places[most.block.places != place]
            chosen = other_place[
                np.linspace(0, len(other_place) - 1, min(len(other_place), MAX_VICTIMS)).astype(
                    np.int64
                )
            ]
            waited = []
            for other in chosen.tolist():
                shared = union_of(*(spans for block, spans in parts if other in block.places))
                waited.append(difference(shared, hidden[other]))
            waited.sort(key=length)
            late = waited[len(waited) // 2]
        return _rank_blame(
            ranks[place], clip(*late, *wall), steps[place], wall[1] - wall[0], rank_charges
        )

    charges = _charges(matched)
    rank_blames = [
        charged(place, charges.get(place, ()), EFFECT_FROM) for place in range(len(ranks))
    ]
    alone = Blame(tuple(rank_blames), steps, wall[1] - wall[0])
    # A single straggler explains the waiting: look for several only where there is none.
    if alone.stragglers or len(ranks) < MIN_TOGETHER:
        return alone
    several = []
    for place, rank_charges in _beyond_median(matched).items():
        late = union_of(*((charge.starts, charge.ends) for charge in rank_charges))
        if length(late) >= CRITICAL_SHARE * whole:
            several.append(charged(place, rank_charges, CRITICAL_SHARE))
    return replace(alone, beyond_median=tuple(several))


def waits_of(
    place: int,
    matched: Matched,
    *,
    other_than: MatchedGroup | None = None,
    clocks_agree: bool = True,
) -> Spans:
    """When the rank waited at collectives: from its own arrival to the last one's.

    Where clocks do not agree, the shortest duration of the collective on any rank counts as its
    transfer. The wait then ends that long before the rank's own end.
    """
    waits = []
    for block, column in matched.of(place):
        if block is other_than:
            continue
        rows = block.synchronising
        arrival, end = block.start[rows, column], block.end[rows, column]
        begun = (
            block.last_arrival[rows]
            if clocks_agree
            else end - (block.end - block.start)[rows].min(axis=1)
        )
        waits.append((arrival, np.minimum(begun, end)))
    return union_of(*waits)


@dataclass(frozen=True, eq=False)
class _Charge:
    """Late arrivals of one rank in one group."""

    block: MatchedGroup
    rows: Int64
    starts: Int64
    ends: Int64
    column: int


def _charges(matched: Matched) -> dict[int, list[_Charge]]:
    """By place: [second-last, last) arrival of the collectives at which the rank came last."""
    charges: dict[int, list[_Charge]] = defaultdict(list)
    for block in matched.groups:
        rows = np.flatnonzero(block.synchronising)
        if not len(rows):
            continue
        start = block.start[rows]
        last = np.argmax(start, axis=1)
        # Partition: only the two latest arrivals matter, so a full sort would be wasted.
        two = np.partition(start, -2, axis=1)[:, -2:]
        for column in np.unique(last).tolist():
            mine = last == column
            place = int(block.places[column])
            charges[place].append(_Charge(block, rows[mine], two[mine, 0], two[mine, 1], column))
    return charges


def _beyond_median(matched: Matched) -> dict[int, list[_Charge]]:
    """By place: [median, own) arrival of the collectives at which the rank came later than the
    median rank."""
    charges: dict[int, list[_Charge]] = defaultdict(list)
    for block in matched.groups:
        rows = np.flatnonzero(block.synchronising)
        width = len(block.places)
        if not len(rows) or width < MIN_TOGETHER:
            continue
        start = block.start[rows]
        # The lower median: of two middle ranks the earlier one sets the mark.
        middle = np.partition(start, (width - 1) // 2, axis=1)[:, (width - 1) // 2]
        for column, place in enumerate(block.places.tolist()):
            late = start[:, column] > middle
            if late.any():
                charges[place].append(
                    _Charge(block, rows[late], middle[late], start[late, column], column)
                )
    return charges


def _delay_spans(
    summary: RankSummary, place: int, offset: int, charges: Sequence[_Charge], matched: Matched
) -> Spans:
    """When the rank was itself kept: by sends and receives, and by groups that it is not late
    in."""
    calls = summary.collectives
    between_two = calls.named(*POINT_TO_POINT)
    spans = [union(calls.start[between_two] - offset, calls.end[between_two] - offset)]
    if len(matched.of(place)) > 1:
        spans.append(waits_of(place, matched, other_than=_most(charges).block))
    return union_of(*spans)


def _most(charges: Sequence[_Charge]) -> _Charge:
    """The group in which the rank is late for the longest."""
    return max(charges, key=lambda c: int((c.ends - c.starts).sum()))


def transfers(block: MatchedGroup) -> Spans:
    """When data moved: from the last arrival of each collective to its first end."""
    rows = block.synchronising
    begun = block.last_arrival[rows]
    return union(begun, np.maximum(block.end[rows].min(axis=1), begun))


def _late(
    charges: Sequence[_Charge], hidden: Spans, delays: Spans
) -> list[tuple[MatchedGroup, Spans]]:
    """By group, when its other ranks waited for this one, without what kept the rank itself."""
    most = _most(charges)
    late_by_group = []
    for charge in charges:
        # Count hidden transfers once, in the group that the rank delays most.
        beside = intersection(transfers(charge.block), hidden) if charge is most else nothing_in()
        late = union_of((charge.starts, charge.ends), beside)
        late_by_group.append((charge.block, difference(late, delays)))
    return late_by_group


def _rank_blame(
    summary: RankSummary, late: Spans, steps: StepColumns, wall_ns: int, charges: Sequence[_Charge]
) -> RankBlame:
    # What is charged in each step: the whole of each interval belongs to the step it ends in.
    before = np.concatenate(([0], np.cumsum(late[1] - late[0])))
    first, last = (
        np.searchsorted(late[1], moment, side="left") for moment in (steps.start, steps.end)
    )
    charged = np.asarray(before[last] - before[first], dtype=np.int64)
    is_blamed = (charged > 0) & (charged >= CRITICAL_SHARE * (steps.end - steps.start))
    whole = length(late)
    return RankBlame(
        rank=summary.rank,
        blame_ns=whole,
        share=whole / max(wall_ns, 1),
        last_arrivals=sum(len(c.rows) for c in charges),
        steps_blamed=int(is_blamed.sum()),
        step_blame_ns=dict(zip(steps.number.tolist(), charged.tolist(), strict=True)),
        clearest=_clearest(summary, charges),
    )


def _clearest(summary: RankSummary, charges: Sequence[_Charge]) -> tuple[LateArrival, ...]:
    arrivals = [
        (int(e - s), c, r)
        for c in charges
        for r, s, e in zip(c.rows, c.starts, c.ends, strict=True)
    ]
    arrivals.sort(key=lambda f: -f[0])
    calls = summary.collectives
    late_arrivals = []
    for waited, charge, row in arrivals[:MAX_EVIDENCE]:
        call_row = int(charge.block.row[row, charge.column])
        step = int(calls.step[call_row])
        late_arrivals.append(
            LateArrival(
                rank=summary.rank,
                file=summary.file,
                event=int(calls.event[call_row]),
                operation=charge.block.operations[int(charge.block.operation[row])],
                # -1 marks a call outside all steps.
                step=step if step >= 0 else None,
                start_ns=int(calls.start[call_row]),
                end_ns=int(calls.end[call_row]),
                waited_ns=waited,
            )
        )
    return tuple(late_arrivals)


def _shifted(steps: StepColumns, offset: int) -> StepColumns:
    return StepColumns(steps.number, steps.start - offset, steps.end - offset)


def _wall(steps: Sequence[StepColumns], matched: Matched) -> tuple[int, int]:
    """From the first step's start to the last one's end over all ranks; without steps, of the
    collectives."""
    if steps and len(steps[0]):
        return min(int(s.start.min()) for s in steps), max(int(s.end.max()) for s in steps)
    blocks = [b for b in matched.groups if len(b)]
    if not blocks:
        return 0, 0
    return min(int(b.start.min()) for b in blocks), max(int(b.end.max()) for b in blocks)
