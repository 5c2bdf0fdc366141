"""Which ranks wait for which: every collective that hangs, with its members sorted into waiting,
missing, done and unknown.

A rank waits in the first collective of each group that has not ended (within a group they run in
order), and in the first point-to-point operation of each channel. Edges are kept per operation, not
per pair of ranks, so that a job of thousands of ranks stays linear.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from faultline.analysis.traces.flight_recorder.collective import Collective, RecordedGroup
from faultline.analysis.traces.flight_recorder.job_state import JobState

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
