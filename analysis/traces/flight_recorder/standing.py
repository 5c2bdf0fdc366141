"""How long a job had been waiting when it was asked, against its own rhythm.

A flight recorder read from a running job shows collectives under way even when all is well. Where
the moment of asking is known, their age tells: work that is delayed is old beside the longest pause
the job has had between collectives.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from faultline.analysis.traces.flight_recorder.collective import Collective, Dump

MIN_STANDING_S = 10.0
"""Younger is never a hang: steps of seconds, garbage collection and checkpoints of shards are usual
(our choice)."""
MIN_PAUSES = 3.0
"""Times the longest pause between two collectives of the same group that the recorder still holds
(our choice)."""
UNKNOWN_STANDING_S = 60.0
"""Where the recorder holds too few collectives to know the job's rhythm: compiling and loading take
long (our choice)."""
MIN_COLLECTIVES = 4
"""Collectives of the group before the pending one, from which its rhythm is known."""


@dataclass(frozen=True)
class PendingAge:
    """The oldest pending operation."""

    seconds: float
    """Since it was enqueued, at the moment of asking."""
    longest_pause_s: float | None
    """Between earlier collectives of its group; None where too few are known."""

    @property
    def is_hang(self) -> bool:
        """Whether that is longer than any work the job is known to do."""
        if self.longest_pause_s is None:
            return self.seconds >= UNKNOWN_STANDING_S
        return self.seconds >= max(MIN_STANDING_S, MIN_PAUSES * self.longest_pause_s)


def standing(dumps: Iterable[Dump], taken_ns: Mapping[str, int]) -> PendingAge | None:
    """The longest standing of any rank; None where nothing is pending or no moment is known."""
    pending_ages = []
    for dump in dumps:
        if dump.pending and dump.file in taken_ns:
            pending_ages.append(_of_rank(dump, taken_ns[dump.file]))
    return max(pending_ages, key=lambda age: (age.is_hang, age.seconds), default=None)


def _of_rank(dump: Dump, taken_ns: int) -> PendingAge:
    oldest = dump.pending[0]
    created = [entry.created_ns for entry in dump.entries if _earlier(entry, oldest)]
    longest_pause_s = None
    if len(created) >= MIN_COLLECTIVES:
        created.append(oldest.created_ns)
        pauses = [later - earlier for earlier, later in itertools.pairwise(created)]
        longest_pause_s = max(pauses) / 1e9
    seconds = (taken_ns - oldest.created_ns) / 1e9
    # The clocks of the rank and of whoever asked may differ by a little.
    return PendingAge(max(0.0, seconds), longest_pause_s)


def _earlier(entry: Collective, oldest: Collective) -> bool:
    return entry.group == oldest.group and entry.record < oldest.record and entry.created_ns > 0
