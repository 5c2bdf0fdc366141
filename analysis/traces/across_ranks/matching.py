"""Which collectives of different ranks are one and the same.

Collectives of one process group match where operation and sequence number (`Seq`) are the same.
Traces without sequence numbers match the k-th of the same (operation, elements, type) by start:
over the whole trace where every rank recorded the same steps and equally many collectives, else
within each step. Gloo runs collectives on two threads in an order that differs between ranks, so
threads are not compared. The elements of an all_to_all differ between ranks and are not compared
either. Sends and receives between two ranks are left out.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.columns.events import Bool, Int64
from faultline.analysis.traces.per_rank.collective_calls import ProcessGroup
from faultline.analysis.traces.per_rank.collective_names import OTHER, POINT_TO_POINT, SYNCHRONISING

UNEVEN = "all_to_all"


@dataclass(frozen=True, eq=False)
class MatchedGroup:
    """The matched collectives of one process group: rows are collectives, columns its ranks; ns."""

    group: ProcessGroup
    places: Int64
    """Of the group's ranks among the participants, ascending."""
    operations: tuple[str, ...]
    operation: Int64
    """Index into `operations`, one per row."""
    start: Int64
    end: Int64
    row: Int64
    """Where each rank's summary holds the collective (`CollectiveCalls`)."""
    bytes: Int64
    """The largest over the ranks, one per row; 0 where unknown."""

    def __len__(self) -> int:
        return len(self.operation)

    @property
    def synchronising(self) -> Bool:
        """Mask of the rows that no rank can leave before every rank has entered."""
        return np.asarray([o in SYNCHRONISING for o in self.operations], dtype=np.bool_)[
            self.operation
        ]

    @property
    def last_arrival(self) -> Int64:
        """When the last rank entered, one per row."""
        return np.asarray(self.start.max(axis=1), dtype=np.int64)

    def select(self, rows: Bool | Int64) -> MatchedGroup:
        """Only these rows."""
        return MatchedGroup(
            self.group, self.places, self.operations, self.operation[rows], self.start[rows],
            self.end[rows],
            self.row[rows], self.bytes[rows],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Matched:
    """All matched collectives of a job."""

    groups: tuple[MatchedGroup, ...]
    unmatched: int
    """Collectives of any rank without a counterpart on every other rank of the group that has a
    trace."""
    partial_groups: tuple[ProcessGroup, ...]
    """Groups of which some ranks have no trace: their last arrival may be unseen."""

    def __len__(self) -> int:
        return sum(len(g) for g in self.groups)

    @cached_property
    def _by_place(self) -> dict[int, list[tuple[MatchedGroup, int]]]:
        group_columns: dict[int, list[tuple[MatchedGroup, int]]] = defaultdict(list)
        for block in self.groups:
            for column, place in enumerate(block.places.tolist()):
                group_columns[place].append((block, column))
        return group_columns

    def of(self, place: int) -> list[tuple[MatchedGroup, int]]:
        """The groups of the participant at this place, and its column in each."""
        return self._by_place.get(place, [])


@dataclass(frozen=True, eq=False)
class _Calls:
    """Collectives of all ranks in one table."""

    place: Int64
    group: Int64
    operation: Int64
    size: Int64
    sequence: Int64
    step: Int64
    start: Int64
    row: Int64
    groups: tuple[ProcessGroup, ...]
    operations: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.place)


def matched_collectives(ranks: Sequence[RankSummary]) -> Matched:
    """Match the collectives of one summary per rank. O(n log n) in all ranks' collectives."""
    calls = _all_calls(ranks)
    if len(ranks) < 2 or not len(calls):
        return Matched((), len(calls), ())
    members = np.zeros((len(calls.groups), len(ranks)), dtype=np.bool_)
    members[calls.group, calls.place] = True
    order = _complete(calls, _keys(calls, ranks, members), members.sum(axis=1))
    # Stable: the order by collective and rank must survive within each group.
    order = order[np.argsort(calls.group[order], kind="stable")]
    edges = np.flatnonzero(np.diff(calls.group[order])) + 1
    blocks = []
    for part in np.split(order, edges) if len(order) else ():
        group = int(calls.group[part[0]])
        width = int(members[group].sum())
        if width > 1:
            # Rows come by collective, then by rank, so each row of the reshape is one collective.
            blocks.append(_block(calls, ranks, part.reshape(-1, width), group))
    partial = [
        g for g, have in zip(calls.groups, members, strict=True) if _is_partial(g, have, ranks)
    ]
    return Matched(tuple(blocks), len(calls) - sum(b.start.size for b in blocks), tuple(partial))


def _all_calls(ranks: Sequence[RankSummary]) -> _Calls:
    groups: dict[str, ProcessGroup] = {}
    group_ids: dict[str, int] = {}
    operation_ids: dict[str, int] = {}
    indexes = [np.flatnonzero(~s.collectives.named(OTHER, *POINT_TO_POINT)) for s in ranks]
    # All ranks of a large job have millions: they are copied once, to where they stay.
    table = np.empty((8, sum(len(rows) for rows in indexes)), dtype=np.int64)
    end = 0
    for place, (summary, rows) in enumerate(zip(ranks, indexes, strict=True)):
        calls = summary.collectives
        for group in calls.groups:
            groups.setdefault(group.key, group)
        ids = [group_ids.setdefault(g.key, len(group_ids)) for g in calls.groups]
        named = [operation_ids.setdefault(o, len(operation_ids)) for o in calls.operations]
        uneven = np.asarray([*(o == UNEVEN for o in calls.operations), False], dtype=np.bool_)
        places = table[:, end : end + len(rows)]
        end += len(rows)
        places[0] = place
        places[1] = np.asarray([*ids, 0], dtype=np.int64)[calls.group[rows]]
        places[2] = np.asarray([*named, 0], dtype=np.int64)[calls.operation[rows]]
        places[3] = np.where(uneven[calls.operation[rows]], 0, calls.elements[rows])
        places[4] = calls.sequence[rows]
        places[5] = calls.step[rows]
        places[6] = calls.start[rows]
        places[7] = rows
    rank, joint, operation, size, sequence, step, start, row = table
    return _Calls(
        place=rank,
        group=joint,
        operation=operation,
        size=size,
        sequence=sequence,
        step=step,
        start=start,
        row=row,
        groups=tuple(groups.values()),
        operations=tuple(operation_ids),
    )


def _keys(calls: _Calls, ranks: Sequence[RankSummary], members: NDArray[np.bool_]) -> Int64:
    """What must be equal for two collectives to be the same; -1 for those that cannot be
    matched."""
    base = _pair(calls.group, calls.operation)
    # Trust sequence numbers only where every collective of the group has one.
    numbered = np.ones(len(calls.groups), dtype=np.bool_)
    np.logical_and.at(numbered, calls.group, calls.sequence >= 0)
    alike = _pair(base, calls.size)
    # Mask of the groups whose ranks recorded other steps, or not as many collectives of some kind.
    sets = {frozenset(s.steps.number.tolist()): i for i, s in enumerate(ranks)}
    recorded = np.asarray([sets[frozenset(s.steps.number.tolist())] for s in ranks], dtype=np.int64)
    uneven = np.asarray([len(np.unique(recorded[have])) > 1 for have in members], dtype=np.bool_)
    _, first, counts, runs = _run_lengths(np.lexsort((calls.place, alike)), alike, calls.place)
    group = calls.group[first]
    bad = (counts.min_of != counts.max_of) | (runs != members.sum(axis=1)[group])
    np.logical_or.at(uneven, group, bad)
    by_step = ~numbered & uneven
    in_step = by_step[calls.group]
    discriminator = np.where(
        numbered[calls.group], calls.sequence, np.where(in_step, calls.step, 0)
    )
    # Shift the keys of unnumbered groups past `base`, so that the two kinds never collide.
    key = _pair(np.where(numbered[calls.group], base, alike + int(base.max()) + 1), discriminator)
    return np.where(in_step & (calls.step < 0), -1, key)


@dataclass(frozen=True)
class _Counts:
    min_of: Int64
    max_of: Int64


def _run_lengths(order: Int64, key: Int64, place: Int64) -> tuple[Int64, Int64, _Counts, Int64]:
    """By key: the key, its first row, the least and most rows any one rank has, and how many ranks
    have it."""
    key, place = key[order], place[order]
    new_key = np.concatenate(([True], key[1:] != key[:-1]))
    starts = np.flatnonzero(new_key | np.concatenate(([True], place[1:] != place[:-1])))
    lengths = np.diff(np.append(starts, len(key)))
    first = np.flatnonzero(new_key[starts])
    counts = _Counts(np.minimum.reduceat(lengths, first), np.maximum.reduceat(lengths, first))
    ranks = np.diff(np.append(first, len(starts)))
    return key[starts[first]], order[starts[first]], counts, ranks


def _complete(calls: _Calls, key: Int64, sizes: Int64) -> Int64:
    """Rows whose key every rank of the group has equally often, one collective after the other, by
    rank."""
    order = np.lexsort((calls.start, calls.place, key))
    order = order[key[order] >= 0]
    if not len(order):
        return order
    keys, first, counts, ranks = _run_lengths(order, key, calls.place)
    # A key that some rank has more often than another would pair the wrong calls: leave it out.
    whole = keys[(counts.min_of == counts.max_of) & (ranks == sizes[calls.group[first]])]
    order = order[np.isin(key[order], whole)]
    run_starts = np.concatenate(
        (
            [True],
            (key[order][1:] != key[order][:-1])
            | (calls.place[order][1:] != calls.place[order][:-1]),
        )
    )
    if not len(order):
        return order
    positions = np.arange(len(order))
    occurrence = positions - np.maximum.accumulate(np.where(run_starts, positions, 0))
    return order[np.lexsort((calls.place[order], occurrence, key[order]))]


def _block(
    calls: _Calls, ranks: Sequence[RankSummary], call_rows: Int64, group: int
) -> MatchedGroup:
    places = calls.place[call_rows[0]]
    row = calls.row[call_rows]
    start, end, size = (np.empty(call_rows.shape, dtype=np.int64) for _ in range(3))
    for column, place in enumerate(places.tolist()):
        collectives = ranks[place].collectives
        start[:, column], end[:, column] = (
            collectives.start[row[:, column]],
            collectives.end[row[:, column]],
        )
        size[:, column] = collectives.bytes[row[:, column]]
    matched_group = MatchedGroup(
        calls.groups[group],
        places,
        calls.operations,
        calls.operation[call_rows[:, 0]],
        start,
        end,
        row,
        size.max(axis=1),
    )
    return matched_group.select(np.argsort(matched_group.last_arrival, kind="stable"))


def _is_partial(group: ProcessGroup, have: NDArray[np.bool_], ranks: Sequence[RankSummary]) -> bool:
    """Whether the group has more ranks than those compared; without a size, the world's."""
    size = group.size or max((s.world_size or 0 for s in ranks), default=0)
    return size > int(have.sum())


def _pair(a: Int64, b: Int64) -> Int64:
    """Numbers from 0 for the distinct pairs."""
    values, place = np.unique(b, return_inverse=True)
    return np.asarray(np.unique(a * len(values) + place, return_inverse=True)[1], dtype=np.int64)


# How far the ranks' clocks are apart: ranks leave a synchronising collective together.
#
# Clocks of one host are one. Where the trace does not name hosts, ranks are taken to share one,
# unless their times contradict it: then each rank has its own clock.

CLOCK_TOLERANCE_NS = 1_000_000
"""A rank may seem to leave a collective so long before the last one enters (our choice: gloo's
threads are late to say)."""
MAX_IMPOSSIBLE = 0.2
"""Share of collectives left before all entered from which clocks or matching are not trusted
(our choice)."""


@dataclass(frozen=True, eq=False)
class Clocks:
    """Offsets of the ranks' clocks, and whether times can be compared with them."""

    offset: Int64
    """ns that each rank's clock is ahead of the first rank's."""
    by: Literal["one host", "host", "rank"]
    """What shares a clock."""
    impossible: float
    """Share of synchronising collectives that some rank left before another had entered."""

    @property
    def agree(self) -> bool:
        """Whether ranks' times can be compared."""
        return self.impossible <= MAX_IMPOSSIBLE


def aligned(matched: Matched, ranks: Sequence[RankSummary]) -> tuple[Matched, Clocks]:
    """The same collectives in the first rank's time."""
    hosts = [summary.host for summary in ranks]
    offset = clock_offsets(matched, [str(host) for host in hosts])
    moved = shifted(matched, offset)
    impossible = impossible_share(moved)
    if len(ranks) > 1 and all(host is None for host in hosts):
        # Times that are not since the epoch may start at a different zero in each trace.
        comparable = all(summary.clock.since_epoch for summary in ranks)
        if impossible > MAX_IMPOSSIBLE or not comparable:
            offset = clock_offsets(matched, [str(place) for place in range(len(ranks))])
            moved = shifted(matched, offset)
            return moved, Clocks(offset, "rank", impossible_share(moved))
    host = len(set(hosts)) < 2
    return moved, Clocks(offset, "one host" if host else "host", impossible)


def shifted(matched: Matched, offset: Int64) -> Matched:
    """Each rank's times less its offset, rows again by last arrival."""
    groups = []
    for block in matched.groups:
        group_offset = offset[block.places]
        moved = replace(block, start=block.start - group_offset, end=block.end - group_offset)
        groups.append(moved.select(np.argsort(moved.last_arrival, kind="stable")))
    return replace(matched, groups=tuple(groups))


def clock_offsets(matched: Matched, clocks: Sequence[str]) -> Int64:
    """How far each clock is ahead of the first one: the median difference of the ends of shared
    collectives.

    `clocks` names each rank's. Clocks that share no collective with the first are reached through
    others; those that cannot be reached keep 0.
    """
    numbers: dict[str, int] = {}
    for name in clocks:
        numbers.setdefault(name, len(numbers))
    clock = np.asarray([numbers[name] for name in clocks], dtype=np.int64)
    offset_by_clock: dict[int, int] = {0: 0}
    waiting = _by_clock(matched, clock)
    reached = deque([0])
    while reached:
        for block in waiting.pop(reached.popleft(), []):
            reached.extend(_learn(block, clock[block.places], offset_by_clock))
    return np.asarray([offset_by_clock.get(number, 0) for number in clock.tolist()], dtype=np.int64)


def _by_clock(matched: Matched, clock: Int64) -> dict[int, list[MatchedGroup]]:
    """The groups that join several clocks, by each of these; only their synchronising
    collectives."""
    groups: dict[int, list[MatchedGroup]] = defaultdict(list)
    for block in matched.groups:
        group_clocks = np.unique(clock[block.places])
        if len(group_clocks) < 2:
            continue
        synchronising = block.select(block.synchronising)
        for number in group_clocks.tolist():
            groups[number].append(synchronising)
    return groups


def _learn(block: MatchedGroup, clock: Int64, offset_by_clock: dict[int, int]) -> list[int]:
    """Add the offsets that follow from this group; the clocks that are new."""
    new = [number for number in np.unique(clock).tolist() if number not in offset_by_clock]
    if not new or not len(block):
        return []
    have = np.flatnonzero([number in offset_by_clock for number in clock.tolist()])
    offsets = np.asarray(
        [offset_by_clock[number] for number in clock[have].tolist()], dtype=np.int64
    )
    reference = block.end[:, have] - offsets
    # The mean is taken of differences: times since the epoch in ns lose digits as floats.
    differences = reference - reference[:, :1]
    middle = reference[:, 0] + differences.mean(axis=1).astype(np.int64)
    for number in new:
        # Take the median: a few threads that report their end late must not shift the clock.
        offset_by_clock[number] = int(np.median(block.end[:, clock == number] - middle[:, None]))
    return new


def impossible_share(matched: Matched) -> float:
    """Share of the synchronising collectives that some rank left before another had entered."""
    total = wrong = 0
    for block in matched.groups:
        rows = block.synchronising
        early = block.end[rows].min(axis=1) + CLOCK_TOLERANCE_NS < block.last_arrival[rows]
        total, wrong = total + len(early), wrong + int(early.sum())
    return wrong / total if total else 0.0
