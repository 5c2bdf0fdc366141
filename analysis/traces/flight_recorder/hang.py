"""Which ranks made a job hang, out of its flight recorder dumps.

In this order: ranks that others wait for while they wait for nobody and have nothing pending (stuck
outside of collectives); ranks that disagree with the others on what they do; ranks that left out a
collective and so made a circle of waiting; ranks whose collective ended elsewhere but not here
(their device); ranks without a dump that others wait for; collectives that all have joined and that
do not end. What hangs behind a culprit is no culprit. Own method, compared with torch's fr_trace in
benchmarks/flight_recorder.py; NVIDIA's nvidia-resiliency-ext has the same idea of missing and stuck
ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from faultline.analysis.traces.flight_recorder.collective import Collective, RecordedGroup
from faultline.analysis.traces.flight_recorder.job_state import (
    JobState,
    WaitedOperation,
    waited_operations,
)
from faultline.analysis.traces.flight_recorder.matching import Mismatch, mismatch_at

# Circles of waiting: two ranks that wait for each other in two groups, because one left a
# collective out.
#
# Their own habits show which of them did: where a rank has always enqueued a collective of one
# group between two of another, and this time has not, it is the one.

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


MAX_STUCK_SHARE = 0.5
"""Of a group: where more ranks than this have not ended what others have, no single device is at
fault (our choice)."""

MAX_COMPARED = 500
"""Collectives whose ranks are compared, the oldest first."""


@dataclass(frozen=True)
class AwaitedRank:
    """A rank that others wait for while it waits for nobody."""

    rank: int
    operation: WaitedOperation
    """It is missing in; a collective rather than point-to-point, then that in which most wait."""
    waiting: tuple[int, ...]
    """Every rank that waits for it directly."""
    last: Collective | None
    """The last operation it enqueued, where its dump shows one."""


@dataclass(frozen=True)
class StuckRank:
    """A rank with an operation pending that has ended on other members of the group."""

    rank: int
    operation: WaitedOperation
    pending: int
    """Operations it has pending."""


@dataclass(frozen=True)
class HangAnalysis:
    """Candidates of every kind; `culprits` applies their order."""

    outside: tuple[AwaitedRank, ...] = ()
    """Stuck outside of collectives."""
    mismatches: tuple[Mismatch, ...] = ()
    circle: Circle | None = None
    stuck: tuple[StuckRank, ...] = ()
    absent: tuple[AwaitedRank, ...] = ()
    """Waited for, and no dump."""
    joined: tuple[WaitedOperation, ...] = ()
    """All members are in and it does not end."""
    operations: tuple[WaitedOperation, ...] = field(default=(), repr=False)
    waiting: frozenset[int] = frozenset()
    """Ranks with anything pending."""

    @property
    def kind(self) -> str:
        """The first kind, in order, that has candidates; "" where nothing hangs."""
        skipped = self.circle is not None and self.circle.skipped is not None
        kinds = (
            ("outside", self.outside),
            ("mismatch", self.mismatches),
            ("skipped", skipped),
            ("stuck", self.stuck),
            ("absent", self.absent),
            ("circle", self.circle),
            ("joined", self.joined),
        )
        for name, candidates in kinds:
            if candidates:
                return name
        return ""

    @property
    def culprits(self) -> tuple[int, ...]:
        """Ranks to blame; empty where no rank is."""
        kind = self.kind
        if kind == "mismatch":
            odd = {rank for mismatch in self.mismatches for rank in mismatch.odd}
            return tuple(sorted(odd))
        if kind == "skipped" and self.circle is not None and self.circle.skipped is not None:
            return (self.circle.skipped,)
        ranked: dict[str, Sequence[AwaitedRank | StuckRank]] = {
            "outside": self.outside,
            "stuck": self.stuck,
            "absent": self.absent,
        }
        return tuple(candidate.rank for candidate in ranked.get(kind, ()))


def hang_analysis(state: JobState) -> HangAnalysis:
    """What the dumps say; empty where no operation is pending and no group disagrees."""
    operations = waited_operations(state)
    waited, waiting = _edges(operations)
    # Whoever is waited for and waits itself is delayed by somebody further on: no culprit.
    roots = sorted(waited.keys() - waiting)
    # The state builds this set each time.
    without_dump = state.without_dump
    absent = []
    outside = []
    for rank in roots:
        if rank in without_dump:
            absent.append(_awaited(state, rank, waited[rank]))
        elif not state.dumps[rank].pending or _lags(state, rank):
            outside.append(_awaited(state, rank, waited[rank]))
    return HangAnalysis(
        outside=tuple(outside),
        mismatches=tuple(_mismatches(state, operations)),
        circle=circle_of_waiting(state, operations),
        stuck=tuple(_stuck(state, operations)),
        absent=tuple(absent),
        joined=tuple(
            operation
            for operation in operations
            if not (operation.missing or operation.done or operation.absent or operation.unclear)
        ),
        operations=tuple(operations),
        waiting=frozenset(rank for rank, dump in state.dumps.items() if dump.pending),
    )


def _lags(state: JobState, rank: int) -> bool:
    """Whether all members of the group of a rank's oldest operation have this pending and have
    enqueued more since.

    Where they stand side by side with it, it is the operation that does not end, not the rank.
    """
    oldest = state.dumps[rank].pending[0]
    rank_progress = state.at(oldest.group, rank)
    if rank_progress is None or oldest.is_p2p:
        return False
    peer_progress = dict(state.progress.get(oldest.group, {}))
    peer_progress.pop(rank, None)
    # With a member's dump missing, nobody knows whether all others have moved on.
    if len(peer_progress) < len(state.members[oldest.group]) - 1:
        return False
    rank_enqueued = rank_progress.enqueued or 0
    for progress in peer_progress.values():
        same = progress.by_seq.get(oldest.seq)
        if same is None or not same.pending:
            return False
        if (progress.enqueued or 0) <= rank_enqueued:
            return False
    return True


def _edges(
    operations: Iterable[WaitedOperation],
) -> tuple[dict[int, list[WaitedOperation]], set[int]]:
    """Rank -> the operations in which it is awaited, oldest first; and the ranks that wait for
    anybody."""
    waited: dict[int, list[WaitedOperation]] = {}
    waiting: set[int] = set()
    for operation in operations:
        for rank in (*operation.missing, *operation.absent):
            waited.setdefault(rank, []).append(operation)
        if operation.missing or operation.absent:
            waiting.update(operation.waiting)
    return waited, waiting


def _awaited(state: JobState, rank: int, operations: Sequence[WaitedOperation]) -> AwaitedRank:
    waiting = {other for operation in operations for other in operation.waiting}
    # A point-to-point operation has the number -1; a collective says more.
    clearest = max(operations, key=lambda op: (op.seq >= 0, len(op.waiting)))
    dump = state.dumps.get(rank)
    last = None
    if dump and dump.entries:
        last = dump.entries[-1]
    return AwaitedRank(rank, clearest, tuple(sorted(waiting)), last)


def _stuck(state: JobState, operations: Sequence[WaitedOperation]) -> list[StuckRank]:
    """Ranks with an operation pending that has ended elsewhere, the clearest only.

    Clearest is the rank's oldest collective, of a kind that ends nowhere before all have joined;
    then any of that kind; then any. gloo has no device, and its operations end elsewhere because
    they failed there. Where a member left no dump, others may have given up on it.
    """
    by_clarity: tuple[dict[int, StuckRank], ...] = ({}, {}, {})
    for operation in operations:
        if operation.entry.backend == "gloo" or operation.absent or not operation.done:
            continue
        members = state.members.get(operation.group, ())
        pending = len(operation.waiting) + len(operation.joined)
        if pending > MAX_STUCK_SHARE * len(members):
            continue
        for rank in operation.waiting:
            mine = state.dumps[rank].pending
            level = _clarity(operation, mine)
            by_clarity[level].setdefault(rank, StuckRank(rank, operation, len(mine)))
    for ranks in by_clarity:
        if ranks:
            return [ranks[rank] for rank in sorted(ranks)]
    return []


def _clarity(operation: WaitedOperation, pending: Sequence[Collective]) -> int:
    """0 (clear) to 2: how surely a rank, whose operations are pending, is stuck in this one."""
    if not operation.entry.needs_everyone:
        return 2
    for entry in pending:
        if not entry.is_p2p:
            is_oldest = (entry.group, entry.seq) == (operation.group, operation.seq)
            return 0 if is_oldest else 1
    return 1


def _mismatches(state: JobState, operations: Sequence[WaitedOperation]) -> list[Mismatch]:
    """At what hangs; where nothing is pending (dumps from after the timeout), at every group's last
    collective."""
    places = [(operation.group, operation.seq) for operation in operations if operation.seq >= 0]
    if not any(dump.pending for dump in state.dumps.values()):
        places += _last_collectives(state)
    # Drop repeats but keep the order: the oldest come first.
    compared = list(dict.fromkeys(places))[:MAX_COMPARED]
    mismatches = []
    for group, seq in compared:
        mismatch = mismatch_at(state, group, seq)
        if mismatch is not None:
            mismatches.append(mismatch)
    return mismatches


def _last_collectives(state: JobState) -> list[tuple[RecordedGroup, int]]:
    last = []
    for group, progress in state.progress.items():
        numbers = {number for of_rank in progress.values() for number in of_rank.by_seq}
        if numbers:
            last.append((group, max(numbers)))
    return last
