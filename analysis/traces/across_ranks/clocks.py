"""How far the ranks' clocks are apart: ranks leave a synchronising collective together.

Clocks of one host are one. Where the trace does not name hosts, ranks are taken to share one,
unless their times contradict it: then each rank has its own clock.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from faultline.analysis.traces.across_ranks.matching import Matched, MatchedGroup
from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.columns.events import Int64

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
