"""Where each rank's steps went, with communication told apart into waiting for others and transfer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.traces.across_ranks.blame import waits_of
from analysis.traces.across_ranks.clocks import Clocks
from analysis.traces.across_ranks.matching import Matched
from analysis.traces.columns import Int64
from analysis.traces.per_rank import step_times
from analysis.traces.per_rank.step_times import COMMUNICATION, DATA, IDLE, OTHER
from analysis.traces.rank_summary import RankSummary
from analysis.traces.spans import covered, difference
from analysis.traces.steps import PHASES

WAIT, TRANSFER = "communication wait", "communication transfer"
PARTS = (*PHASES, WAIT, TRANSFER, step_times.COPIES, IDLE, OTHER)
"""Parts of a step, in the order of a stacked chart."""
OWN_PARTS = tuple(p for p in PARTS if p not in (WAIT, TRANSFER))
"""Parts that lie at the rank itself."""


@dataclass(frozen=True, eq=False)
class RankSteps:
    """One rank's steps; ns, one value per step."""

    rank: int
    number: Int64
    length: Int64
    parts: dict[str, Int64]
    """By name of `PARTS`; they add up to `length`."""

    def __len__(self) -> int:
        return len(self.number)

    @property
    def step_ms(self) -> float:
        """Mean length of a step."""
        return float(self.length.mean()) / 1e6 if len(self) else 0.0

    def ms(self, part: str) -> float:
        """Mean milliseconds per step of one part."""
        return float(self.parts[part].mean()) / 1e6 if len(self) else 0.0

    def share(self, part: str) -> float:
        """Share of the steps' time in one part."""
        whole = int(self.length.sum())
        return float(self.parts[part].sum()) / whole if whole else 0.0

    @property
    def data_share(self) -> float:
        """Share of the steps' time in data loading."""
        return self.share(DATA)

    def only(self, numbers: set[int]) -> RankSteps:
        """The steps with these numbers."""
        keep = np.isin(self.number, np.asarray(sorted(numbers), dtype=np.int64))
        return RankSteps(
            self.rank, self.number[keep], self.length[keep], {part: ns[keep] for part, ns in self.parts.items()}
        )


def rank_steps(ranks: Sequence[RankSummary], matched: Matched, clocks: Clocks) -> tuple[RankSteps, ...]:
    """All steps of every rank. Without matched collectives all communication is transfer."""
    return tuple(_of(summary, place, matched, clocks) for place, summary in enumerate(ranks))


def _of(summary: RankSummary, place: int, matched: Matched, clocks: Clocks) -> RankSteps:
    steps, offset = summary.steps, int(clocks.offset[place])
    starts, ends = waits_of(place, matched, clocks_agree=clocks.agree)
    waiting = difference((starts + offset, ends + offset), summary.hidden.spans)
    communication = steps.parts[COMMUNICATION]
    wait = np.minimum(covered(waiting, steps.start, steps.end), communication)
    parts = {part: steps.parts[part] for part in OWN_PARTS} | {WAIT: wait, TRANSFER: communication - wait}
    return RankSteps(summary.rank, steps.number, steps.end - steps.start, {part: parts[part] for part in PARTS})
