"""The dumps of a job put side by side: groups, and how far every rank is in each.

A rank's own count per group (pg_status) is keyed by a number local to the rank. It is turned into a
group through the rank's entries; for a rank without entries through the order in which groups were
made, else through the other ranks' numbers. In groups with point-to-point operations the count
mixes both kinds, and only entries are used there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from faultline.analysis.traces.flight_recorder.collective import (
    Collective,
    Dump,
    GroupStatus,
    RecordedGroup,
)

DEFAULT_GROUPS = ("default_pg", "default")


@dataclass
class GroupProgress:
    """One rank in one group."""

    enqueued: int | None = None
    """Number of the last collective enqueued; None where nothing tells."""
    completed: int | None = None
    """Number up to which collectives ended; None where nothing tells."""
    by_seq: dict[int, Collective] = field(default_factory=dict)
    """Collectives (no point-to-point) by number, the latest of each."""
    peers: list[Collective] = field(default_factory=list)
    """Point-to-point operations, oldest first."""


@dataclass(frozen=True)
class JobState:
    """One dump per rank, and what they say together."""

    dumps: Mapping[int, Dump]
    world: frozenset[int]
    """Every rank that a dump, a group's list or a file's name speaks of."""
    members: Mapping[RecordedGroup, tuple[int, ...]]
    """Global ranks of each group; where the dumps do not list them, the ranks seen in it (default
    group: all)."""
    progress: Mapping[RecordedGroup, Mapping[int, GroupProgress]]

    @property
    def without_dump(self) -> frozenset[int]:
        """Ranks of the job with no dump that could be read."""
        return self.world - frozenset(self.dumps)

    def at(self, group: RecordedGroup, rank: int) -> GroupProgress | None:
        """How far a rank is in a group; None for a rank without a dump."""
        return self.progress.get(group, {}).get(rank)

    def global_rank(self, group: RecordedGroup, number: int) -> int | None:
        """A rank's number within the group to its global rank."""
        members = group.ranks or self.members.get(group, ())
        if number >= len(members):
            return None
        return members[number]


def job_state(dumps: Iterable[Dump], other_ranks: Iterable[int] = ()) -> JobState:
    """Put dumps side by side, one per rank; `other_ranks` are known from elsewhere (names of logs,
    metrics)."""
    by_rank = {dump.rank: dump for dump in dumps}
    world = _world(by_rank, other_ranks)
    local = {rank: _local_groups(dump, by_rank) for rank, dump in by_rank.items()}
    members = _members(by_rank, local, world)
    mixed = _groups_with_peers(by_rank)
    progress: dict[RecordedGroup, dict[int, GroupProgress]] = {group: {} for group in members}
    for rank, dump in by_rank.items():
        for entry in dump.entries:
            _add(progress[entry.group].setdefault(rank, GroupProgress()), entry)
        for number, group in local[rank].items():
            if number in dump.status and group not in mixed:
                of_rank = progress[group].setdefault(rank, GroupProgress())
                _count(of_rank, dump.status[number])
    # Members without an entry need a place, too: they may be the ones that are missing.
    for group, ranks in members.items():
        for rank in by_rank.keys() & set(ranks):
            progress[group].setdefault(rank, GroupProgress())
    return JobState(by_rank, world, members, progress)


def _groups_with_peers(dumps: Mapping[int, Dump]) -> set[RecordedGroup]:
    """Groups with point-to-point operations, whose own count mixes both kinds."""
    groups = set()
    for dump in dumps.values():
        for entry in dump.entries:
            if entry.is_p2p or entry.p2p_seq > 0:
                groups.add(entry.group)
    return groups


def _world(dumps: Mapping[int, Dump], other_ranks: Iterable[int]) -> frozenset[int]:
    ranks = set(dumps) | set(other_ranks)
    for dump in dumps.values():
        for group in dump.groups.values():
            ranks.update(group.ranks)
    highest = max(ranks, default=-1)
    # A hostile name such as rank999999 must not make a million ranks of two.
    if highest < 2 * len(ranks) + 8:
        return frozenset(range(highest + 1))
    return frozenset(ranks)


def _add(progress: GroupProgress, entry: Collective) -> None:
    """An entry's share in what is known: point-to-point entries carry the number of the last
    collective too."""
    progress.enqueued = max(progress.enqueued or 0, entry.seq)
    if entry.is_p2p:
        progress.peers.append(entry)
        return
    progress.by_seq[entry.seq] = entry
    if not entry.pending:
        progress.completed = max(progress.completed or 0, entry.seq)


def _count(progress: GroupProgress, status: GroupStatus) -> None:
    if status.enqueued >= 0:
        progress.enqueued = max(progress.enqueued or 0, status.enqueued)
    if status.completed >= 0:
        progress.completed = max(progress.completed or 0, status.completed)


def _members(
    dumps: Mapping[int, Dump],
    local: Mapping[int, Mapping[int, RecordedGroup]],
    world: frozenset[int],
) -> dict[RecordedGroup, tuple[int, ...]]:
    ranks_by_group: dict[RecordedGroup, set[int]] = defaultdict(set)
    for rank, dump in dumps.items():
        for group in (*dump.groups.values(), *local[rank].values()):
            ranks_by_group[group].add(rank)
        for entry in dump.entries:
            ranks_by_group[entry.group].add(rank)
    members = {}
    for group, ranks in ranks_by_group.items():
        if group.ranks:
            members[group] = group.ranks
        elif group.description in DEFAULT_GROUPS:
            # The default group spans the job, ranks without a dump included.
            members[group] = tuple(sorted(world))
        else:
            members[group] = tuple(sorted(ranks))
    return members


def _local_groups(dump: Dump, dumps: Mapping[int, Dump]) -> dict[int, RecordedGroup]:
    """The group of each of a rank's local numbers."""
    local_ids = dict(dump.local_ids)
    by_order = _by_order(dump)
    for number in dump.status:
        if number in local_ids:
            continue
        if number in by_order:
            local_ids[number] = by_order[number]
            continue
        candidates = {d.local_ids[number] for d in dumps.values() if number in d.local_ids}
        same = [_counterpart(dump, group) for group in candidates]
        # Other ranks' numbers count only where they agree.
        if len(same) == 1 and same[0] is not None:
            local_ids[number] = same[0]
    return local_ids


def _counterpart(dump: Dump, other: RecordedGroup) -> RecordedGroup | None:
    """This rank's group that corresponds to another rank's: the same one, else the only one so
    described."""
    if other.name in dump.groups or not dump.groups:
        if other.ranks and dump.rank not in other.ranks:
            return None
        return dump.groups.get(other.name, other)
    alike = [group for group in dump.groups.values() if group.description == other.description]
    return alike[0] if len(alike) == 1 else None


def _by_order(dump: Dump) -> dict[int, RecordedGroup]:
    """Local numbers follow the order in which groups were made, as do names that are numbers.

    Used where both lists are equally long and the entries agree.
    """
    if len(dump.groups) != len(dump.status):
        return {}
    if not all(name.isdecimal() for name in dump.groups):
        return {}
    names = sorted(dump.groups, key=int)
    by_number = {}
    for number, name in zip(sorted(dump.status), names, strict=True):
        by_number[number] = dump.groups[name]
    for number, group in dump.local_ids.items():
        paired = by_number.get(number)
        if paired is not None and paired.name != group.name:
            # A single contradiction disproves the order.
            return {}
    return by_number


# Which ranks wait for which: every collective that hangs, with its members sorted into waiting,
# missing, done and unknown.
#
# A rank waits in the first collective of each group that has not ended (within a group they run in
# order), and in the first point-to-point operation of each channel. Edges are kept per operation,
# not per pair of ranks, so that a job of thousands of ranks stays linear.

MAX_OPERATIONS = 64
"""First pending operations looked at per group; a hang has one or two, hostile dumps one per
rank."""


@dataclass(frozen=True)
class WaitedOperation:
    """An operation in which at least one rank hangs."""

    group: RecordedGroup
    seq: int
    """Number of the collective; -1 for point-to-point."""
    entry: Collective
    """As the first of the waiting ranks recorded it."""
    waiting: tuple[int, ...]
    """Ranks for which it is the group's first that has not ended."""
    joined: tuple[int, ...]
    """Other ranks that have enqueued it and not ended it."""
    missing: tuple[int, ...]
    """Members that have never enqueued it."""
    done: tuple[int, ...]
    """Members for which it has ended."""
    absent: tuple[int, ...]
    """Members without a dump that could be read."""
    unclear: tuple[int, ...]
    """Members whose dump does not tell."""


def waited_operations(state: JobState) -> list[WaitedOperation]:
    """All of them, the oldest first."""
    collectives = [*_collectives(state), *_channels(state)]
    return sorted(collectives, key=lambda op: op.entry.created_ns)


def _collectives(state: JobState) -> Iterator[WaitedOperation]:
    first: dict[RecordedGroup, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for rank, dump in state.dumps.items():
        recorded_groups: set[RecordedGroup] = set()
        for entry in dump.pending:
            if not entry.is_p2p and entry.group not in recorded_groups:
                recorded_groups.add(entry.group)
                first[entry.group][entry.seq].append(rank)
    for group, by_seq in first.items():
        for seq in sorted(by_seq)[:MAX_OPERATIONS]:
            yield _collective(state, group, seq, by_seq[seq])


def _collective(
    state: JobState, group: RecordedGroup, seq: int, waiting: list[int]
) -> WaitedOperation:
    sorted_out: dict[str, list[int]] = defaultdict(list)
    first = set(waiting)
    for member in state.members.get(group, ()):
        if member not in first:
            sorted_out[_standing(state, group, seq, member)].append(member)
    entry = state.progress[group][min(waiting)].by_seq[seq]
    if entry.needs_everyone and not sorted_out["done"]:
        _settle(state, sorted_out, len(waiting))
    return WaitedOperation(
        group=group,
        seq=seq,
        entry=entry,
        waiting=tuple(sorted(waiting)),
        **{k: tuple(sorted_out[k]) for k in ("joined", "missing", "done", "absent", "unclear")},
    )


def _settle(state: JobState, sorted_out: dict[str, list[int]], waiting: int) -> None:
    """Settle the members whose dump shows only pending operations, without this one.

    They never enqueued it, or it has ended for them, which it cannot do before it ends for the
    others. They count as missing where they are no more than those that hang.
    """
    whole = [rank for rank in sorted_out["unclear"] if not state.dumps[rank].cut_off]
    if len(whole) <= waiting + len(sorted_out["joined"]):
        sorted_out["missing"] = sorted([*sorted_out["missing"], *whole])
        sorted_out["unclear"] = [
            rank for rank in sorted_out["unclear"] if state.dumps[rank].cut_off
        ]


def _standing(state: JobState, group: RecordedGroup, seq: int, member: int) -> str:
    dump = state.dumps.get(member)
    progress = state.at(group, member)
    if dump is None or progress is None:
        return "absent"
    entry = progress.by_seq.get(seq)
    if entry is not None:
        return "joined" if entry.pending else "done"
    # A cut-off dump may lack just this entry; only a count in pg_status proves it missing.
    if progress.enqueued is None or (dump.cut_off and not dump.status):
        return "unclear"
    if progress.enqueued < seq:
        return "missing"
    # The ring no longer holds the entry, so the rank's own counts decide.
    return "done" if progress.completed is not None and progress.completed >= seq else "joined"


def _channels(state: JobState) -> Iterator[WaitedOperation]:
    """Point-to-point: a rank waits for its peer unless the peer has the opposite operation pending
    as well."""
    offers = _offers(state)
    for rank, dump in state.dumps.items():
        places: set[tuple[RecordedGroup, tuple[int, int] | None, bool]] = set()
        for entry in dump.pending:
            place = (entry.group, entry.channel, entry.sends)
            if entry.channel is None or place in places:
                continue
            places.add(place)
            sender, receiver = entry.channel
            peer = state.global_rank(entry.group, receiver if entry.sends else sender)
            # A rank that sends to itself waits for nobody else.
            if peer is None or peer == rank:
                continue
            offered = (peer, entry.group, entry.channel, not entry.sends) in offers
            yield _point_to_point(state, entry, rank, peer, offered)


def _point_to_point(
    state: JobState, entry: Collective, rank: int, peer: int, offered: bool
) -> WaitedOperation:
    dump = state.dumps.get(peer)
    if dump is None:
        where = "absent"
    elif offered:
        where = "joined"
    elif dump.cut_off:
        where = "unclear"
    else:
        where = "missing"
    places: dict[str, tuple[int, ...]] = dict.fromkeys(
        ("joined", "missing", "done", "absent", "unclear"), ()
    )
    places[where] = (peer,)
    return WaitedOperation(group=entry.group, seq=-1, entry=entry, waiting=(rank,), **places)


def _offers(state: JobState) -> set[tuple[int, RecordedGroup, tuple[int, int] | None, bool]]:
    """What every rank sends or receives: (rank, group, channel, whether it sends)."""
    offers = set()
    for rank, dump in state.dumps.items():
        for entry in dump.pending:
            if entry.is_p2p:
                offers.add((rank, entry.group, entry.channel, entry.sends))
    return offers
