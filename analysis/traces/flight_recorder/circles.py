"""Circles of waiting: two ranks that wait for each other in two groups, because one left a
collective out.

Their own habits show which of them did: where a rank has always enqueued a collective
of one group between two of another, and this time has not, it is the one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from faultline.analysis.traces.flight_recorder.collective import Collective, RecordedGroup
from faultline.analysis.traces.flight_recorder.job_state import JobState
from faultline.analysis.traces.flight_recorder.wait_for import WaitedOperation

MIN_ROUNDS = 3
"""Rounds that make a habit (our choice)."""
HABIT_SHARE = 0.9
"""Of the earlier rounds that held the collective (our choice)."""
MAX_ROUNDS = 50
MAX_OPERATIONS = 50
"""Operations of a circle for which habits are looked at."""


@dataclass(frozen=True)
class Circle:
    """Ranks, each of which waits for the next, the last for the first."""

    ranks: tuple[int, ...]
    operations: tuple[WaitedOperation, ...]
    """In which each of them waits."""
    skipped: int | None
    """The rank that left out a collective it always did before; None where habits do not tell."""
    left_out: WaitedOperation | None = None
    """The collective it left out."""


def circle_of_waiting(state: JobState, operations: Sequence[WaitedOperation]) -> Circle | None:
    """A circle, or None. Follows from each rank the oldest operation in which somebody is
    missing."""
    next_of: dict[int, tuple[int, WaitedOperation]] = {}
    for operation in operations:
        for rank in operation.waiting:
            # Operations come oldest first, and the oldest one is what holds the rank.
            if operation.missing:
                next_of.setdefault(rank, (operation.missing[0], operation))
    observed_ranks: set[int] = set()
    for start in sorted(next_of):
        path: list[int] = []
        rank = start
        while rank in next_of and rank not in observed_ranks:
            observed_ranks.add(rank)
            path.append(rank)
            rank = next_of[rank][0]
        # The path may enter the circle from outside: cut that part off.
        if rank in path:
            ranks = tuple(path[path.index(rank) :])
            return _circle(state, ranks, tuple(next_of[r][1] for r in ranks))
    return None


def _circle(
    state: JobState, ranks: tuple[int, ...], operations: tuple[WaitedOperation, ...]
) -> Circle:
    inside = set(ranks)
    for waited in operations[:MAX_OPERATIONS]:
        for rank in inside.intersection(waited.missing):
            if waited.seq >= 0 and _left_out(state, rank, waited.group):
                return Circle(ranks, operations, rank, waited)
    return Circle(ranks, operations, None)


def _left_out(state: JobState, rank: int, group: RecordedGroup) -> bool:
    """Whether the rank's last round lacks the group's collective that nearly all rounds before
    had."""
    dump = state.dumps[rank]
    if not dump.pending:
        return False
    rounds = _rounds(dump.entries, dump.pending[0].group, dump.pending[0].seq)
    earlier = [group in round_groups for round_groups in rounds[:-1]]
    habit = len(earlier) >= MIN_ROUNDS and sum(earlier) >= HABIT_SHARE * len(earlier)
    return habit and group not in rounds[-1]


def _rounds(
    entries: Sequence[Collective], group: RecordedGroup, last: int
) -> list[set[RecordedGroup]]:
    """The groups used between each two collectives of a group, up to its collective `last`."""
    rounds: list[set[RecordedGroup]] = []
    recorded_groups: set[RecordedGroup] | None = None
    for entry in entries:
        if entry.group == group and not entry.is_p2p:
            if recorded_groups is not None:
                rounds.append(recorded_groups)
            recorded_groups = set()
            if entry.seq == last:
                break
        elif recorded_groups is not None:
            recorded_groups.add(entry.group)
    return rounds[-MAX_ROUNDS:]
