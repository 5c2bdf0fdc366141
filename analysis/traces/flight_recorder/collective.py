"""What one rank's flight recorder says, as values.

Sources: torch/csrc/distributed/c10d/FlightRecorder.hpp and torch/distributed/flight_recorder
(PyTorch 2.4 to 2.13).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]

# c10d begins the names of some variants with an underscore, as in "_allgather_base".
_EVERYONE = re.compile(r"_?(?:all_?reduce|all_?gather|reduce_scatter|all_?to_?all|barrier)", re.I)
_PEERS = re.compile(r"^(send|recv|recvAnySource) (\d{1,6})(->|<-)(\d{1,6})")


@dataclass(frozen=True, slots=True)
class CallFrame:
    """A line of Python code on a stack."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class RecordedGroup:
    """A process group, the same value on every rank that is in it."""

    name: str
    description: str = ""
    ranks: tuple[int, ...] = ()
    """Global ranks by their number within the group; empty where the dump does not say (gloo)."""

    def __hash__(self) -> int:
        """Leaves out the ranks: there may be thousands."""
        return hash((self.name, self.description))

    @property
    def label(self) -> str:
        """As people know it."""
        return (
            self.description
            if self.description and self.description != "undefined"
            else f"group {self.name}"
        )


@dataclass(frozen=True, slots=True)
class Collective:
    """One entry: an operation that this rank has enqueued."""

    record: int
    """Position in the rank's order of enqueueing, over all groups."""
    group: RecordedGroup
    seq: int
    """Number of the collective within its group, from 1; for point-to-point that of the last
    collective before it."""
    p2p_seq: int
    backend: str
    """"nccl", "gloo"; "" where the dump does not say."""
    op: str
    """"all_reduce", "send 0->3": without the backend."""
    is_p2p: bool
    input_sizes: Shapes
    output_sizes: Shapes
    input_dtypes: tuple[str, ...]
    output_dtypes: tuple[str, ...]
    created_ns: int
    state: str
    """"scheduled", "started" or "completed"; gloo never leaves "scheduled"."""
    retired: bool
    """The watchdog has seen it end, well or not: gloo's only sign of completion."""
    timeout_ms: int
    frames: tuple[CallFrame, ...] = ()
    """Where it was called, innermost first; JSON dumps have none."""

    @property
    def pending(self) -> bool:
        """Enqueued and not seen to end."""
        # gloo never reports "completed": only `retired` shows its end.
        return not self.retired and self.state != "completed"

    @property
    def channel(self) -> tuple[int, int] | None:
        """(sender, receiver) of a point-to-point operation, as numbers within the group."""
        match = _PEERS.match(self.op) if self.is_p2p else None
        if match is None:
            return None
        # The first number is the rank itself: "send 0->3", "recv 3<-0".
        member, other = int(match[2]), int(match[4])
        return (member, other) if match[3] == "->" else (other, member)

    @property
    def sends(self) -> bool:
        """Whether it is a send."""
        return self.op.startswith("send")

    @property
    def needs_everyone(self) -> bool:
        """Whether it can end on no rank before all have joined; a broadcast's root and a gather's
        leaves can."""
        return not self.is_p2p and _EVERYONE.match(self.op) is not None

    @property
    def kind(self) -> str:
        """The operation without its peers: "send", "all_reduce"."""
        return self.op.split(" ", 1)[0]


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A rank's own count for one group; -1 for none. Groups with point-to-point count both kinds in
    one number."""

    enqueued: int
    completed: int


@dataclass(frozen=True)
class Dump:
    """What could be read of one rank's flight recorder."""

    rank: int
    rank_source: str
    """"file name", "page" or "order"."""
    file: str
    """Path as given."""
    form: str
    """"pickle", "json" or "page"."""
    version: str = ""
    groups: Mapping[str, RecordedGroup] = field(default_factory=dict)
    """By the group's name, as pg_config lists them."""
    status: Mapping[int, GroupStatus] = field(default_factory=dict)
    """By the group's number on this rank (pg_id)."""
    local_ids: Mapping[int, RecordedGroup] = field(default_factory=dict)
    """The group of each pg_id, as far as entries tell."""
    entries: tuple[Collective, ...] = ()
    """By record."""
    cut_off: bool = False
    """The file ended early; what is here is its beginning."""
    left_out: int = 0
    """Entries that could not be read."""

    @cached_property
    def pending(self) -> tuple[Collective, ...]:
        """What this rank waits for, oldest first."""
        return tuple(e for e in self.entries if e.pending)


@dataclass(frozen=True)
class UnreadDump:
    """A dump that says nothing."""

    file: str
    rank: int | None
    problem: str
    """"empty", "cut off before its first entry", "calls a function", ...: one line."""


# What a rank has always done after an operation, and where it did something new.

MIN_ROUNDS = 3
"""Times an operation must have been followed by others before its successor is a habit (our
choice)."""
MAX_BEFORE = 5_000
"""Earlier operations looked at."""
MAX_WINDOW = 200
"""Operations between the two collectives that are looked at."""

Step = tuple[str, str]


def breaks_habit(entries: Sequence[Collective], group: RecordedGroup, seq: int) -> bool:
    """Whether, between a group's collective `seq - 1` and `seq`, an operation has a successor that
    it never had.

    A rank that left out a collective shows it here, also where what it calls next is nothing
    unusual in itself.
    """
    places = []
    for place, entry in enumerate(entries):
        if entry.group == group and not entry.is_p2p and entry.seq in (seq - 1, seq):
            places.append(place)
    if not places or entries[places[-1]].seq != seq:
        return False
    end = places[-1]
    # Without the collective before, the window reaches back to the first entry.
    begin = places[0] if len(places) > 1 else 0
    begin = max(begin, end - MAX_WINDOW)
    start = max(0, begin - MAX_BEFORE)
    steps = [(entry.group.name, entry.op) for entry in entries[start : end + 1]]
    followers: dict[Step, Counter[Step]] = defaultdict(Counter)
    for place, (step, after) in enumerate(pairwise(steps), start=start):
        follower = followers[step]
        in_window = place >= begin
        if in_window and follower.total() >= MIN_ROUNDS and after not in follower:
            return True
        follower[after] += 1
    return False
