"""What a rank has always done after an operation, and where it did something new."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

from analysis.traces.flight_recorder.collective import Collective, Group

MIN_ROUNDS = 3
"""Times an operation must have been followed by others before its successor is a habit (own)."""
MAX_BEFORE = 5_000
"""Earlier operations looked at."""
MAX_WINDOW = 200
"""Operations between the two collectives that are looked at."""

Step = tuple[str, str]


def breaks_habit(entries: Sequence[Collective], group: Group, seq: int) -> bool:
    """Whether, between a group's collective `seq - 1` and `seq`, an operation has a successor that
    it never had.

    A rank that left out a collective shows it here, also where what it calls next is nothing
    unusual in itself.
    """
    places = [
        i
        for i, e in enumerate(entries)
        if e.group == group and not e.is_p2p and e.seq in (seq - 1, seq)
    ]
    if not places or entries[places[-1]].seq != seq:
        return False
    end = places[-1]
    first = max(places[0] if len(places) > 1 else 0, end - MAX_WINDOW)
    steps = [_step(e) for e in entries[max(0, first - MAX_BEFORE) : end + 1]]
    followers: dict[Step, Counter[Step]] = defaultdict(Counter)
    for place, (step, after) in enumerate(pairwise(steps)):
        known = followers[step]
        if (
            place >= len(steps) - 1 - (end - first)
            and known.total() >= MIN_ROUNDS
            and after not in known
        ):
            return True
        known[after] += 1
    return False


def _step(entry: Collective) -> Step:
    return entry.group.name, entry.op
