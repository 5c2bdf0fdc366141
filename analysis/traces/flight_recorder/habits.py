"""What a rank has always done after an operation, and where it did something new."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.traces.flight_recorder.collective import Collective, Group

MIN_ROUNDS = 3
"""Times an operation must have been followed by others before its successor is a habit (own)."""
MAX_BEFORE = 5_000
"""Earlier operations looked at."""

Step = tuple[str, str]


def breaks_habit(entries: Sequence[Collective], group: Group, seq: int) -> bool:
    """Whether, between a group's collective `seq - 1` and `seq`, an operation has a successor that it never had.

    A rank that left out a collective shows it here, also where what it calls next is nothing unusual in itself.
    """
    places = [i for i, e in enumerate(entries) if e.group == group and not e.is_p2p and e.seq in (seq - 1, seq)]
    if not places or entries[places[-1]].seq != seq:
        return False
    first = places[0] if len(places) > 1 else max(places[-1] - 1, 0)
    start = max(0, first - MAX_BEFORE)
    steps = [_step(e) for e in entries[start : places[-1] + 1]]
    window = first - start
    for place in range(window, len(steps) - 1):
        followers = [steps[i + 1] for i in range(place) if steps[i] == steps[place]]
        if len(followers) >= MIN_ROUNDS and steps[place + 1] not in followers:
            return True
    return False


def _step(entry: Collective) -> Step:
    return entry.group.name, entry.op
