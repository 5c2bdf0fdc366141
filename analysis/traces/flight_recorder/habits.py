"""What a rank has always done after an operation, and where it did something new."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

from faultline.analysis.traces.flight_recorder.collective import Collective, RecordedGroup

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
