"""What one rank does more of than the others: the part of the step, and the operation inside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from faultline.analysis.traces.across_ranks.step_breakdown import LOCAL_PARTS, RankSteps

NAMED_SHARE = 0.3
"""An operation is named when it explains at least this much of the extra time (our choice: below,
it would mislead)."""
IDLE_FLOOR_MS = 0.05
"""Below this a ratio to the others' time says nothing and is left out."""


@dataclass(frozen=True)
class ExtraWork:
    """Milliseconds per step of a rank in one part or operation, against the median of what it is
    compared with."""

    name: str
    rank_ms: float
    peer_ms: float

    @property
    def extra_ms(self) -> float:
        """The difference."""
        return self.rank_ms - self.peer_ms

    @property
    def ratio(self) -> float | None:
        """Own over the others'; None where the others do next to nothing."""
        return self.rank_ms / self.peer_ms if self.peer_ms >= IDLE_FLOOR_MS else None


def extra_part(rank_steps: RankSteps, peers: Sequence[RankSteps]) -> ExtraWork | None:
    """The part of the step with the most extra time; None when none is longer than on the others.

    Waiting and transfer are no part of it: they follow from what the rank itself does.
    """
    if not peers:
        return None
    compared = [ExtraWork(p, rank_steps.ms(p), median(o.ms(p) for o in peers)) for p in LOCAL_PARTS]
    worst = max(compared, key=lambda work: work.extra_ms)
    return worst if worst.extra_ms > 0 else None


def extra_operation(
    rank_times: dict[str, float], peer_times: Iterable[dict[str, float]], explained_ms: float
) -> ExtraWork | None:
    """The operation with the most extra self time, if it explains enough of `explained_ms`.

    `rank_times` and each of `peer_times` is ns per step by name (`OperationTimes.per_step`).
    """
    beside = list(peer_times)
    if not rank_times or not beside:
        return None
    compared = [
        # An operation that a peer never ran took 0 there.
        ExtraWork(n, ns / 1e6, median(o.get(n, 0.0) for o in beside) / 1e6)
        for n, ns in rank_times.items()
    ]
    worst = max(compared, key=lambda work: work.extra_ms)
    return worst if worst.extra_ms > 0 and worst.extra_ms >= NAMED_SHARE * explained_ms else None
