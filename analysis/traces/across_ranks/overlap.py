"""Communication that could have been hidden behind computation: gradients reduced only after the
backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.across_ranks.wait_transfer import united
from faultline.analysis.traces.columns.steps import PHASES
from faultline.analysis.traces.per_rank.collective_calls import CollectiveCalls

AFTER_BACKWARD = 0.9
"""Share of the gradients' all_reduce (by bytes, by time where sizes are unknown) that is launched
after the backward pass from which nothing overlaps (our choice: DDP launches each bucket inside it;
only a last loss or norm comes after)."""

_FORWARD, _BACKWARD = tuple(PHASES).index("forward pass"), tuple(PHASES).index("backward pass")


@dataclass(frozen=True)
class AllReduceOverlap:
    """How one rank's all_reduce lies to its backward pass; ns per step."""

    rank: int
    count: int
    """all_reduce calls in steps that have a backward pass, without those of the forward pass
    (tensor parallelism's); where nothing overlaps, those after the backward pass. The times are of
    these."""
    after_backward: float
    """Share of them, by weight, that was launched outside the backward pass."""
    total: float
    exposed: float
    step_share: float
    """Exposed time over the steps' time."""

    @property
    def none_overlaps(self) -> bool:
        """Whether the gradients are reduced only after the backward pass."""
        return self.count > 0 and self.after_backward >= AFTER_BACKWARD


def all_reduce_overlap(summary: RankSummary) -> AllReduceOverlap | None:
    """None where the rank has no steps, no all_reduce in them or no recognisable backward
    pass."""
    steps, calls = summary.steps, summary.collectives
    with_backward = steps.number[steps.phases["backward pass"] > 0]
    of_gradients = calls.named("all_reduce") & (calls.launched_in != _FORWARD)
    rows = np.flatnonzero(of_gradients & np.isin(calls.step, with_backward))
    if not len(rows):
        return None
    sizes = calls.bytes[rows]
    # Weigh by bytes only if all sizes are known: a 0 would make a large call weightless.
    weight = sizes if (sizes > 0).all() else (calls.end - calls.start)[rows]
    outside = calls.launched_in[rows] != _BACKWARD
    after = float(weight[outside].sum() / max(weight.sum(), 1))
    rows = rows[outside] if after >= AFTER_BACKWARD else rows
    whole = int((steps.end - steps.start).sum())
    total, exposed = united(summary, np.isin(np.arange(len(calls)), rows))
    return AllReduceOverlap(
        rank=summary.rank,
        count=len(rows),
        after_backward=after,
        total=total / len(steps),
        exposed=exposed / len(steps),
        step_share=exposed / max(whole, 1),
    )


def uses_fsdp(ranks: Sequence[RankSummary]) -> bool:
    """Whether parameters are gathered for use: every rank has all_gather calls in the forward or
    backward pass."""
    return bool(ranks) and all(bool((_gathers(s.collectives)).any()) for s in ranks)


def _gathers(calls: CollectiveCalls) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray(calls.named("all_gather") & np.isin(calls.launched_in, (_FORWARD, _BACKWARD)))
