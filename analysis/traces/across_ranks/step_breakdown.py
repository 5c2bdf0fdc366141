"""Where each rank's steps went, with communication split into waiting for others and
transfer.

A transfer beside which another rank of the group still computes is waiting, too: it is hidden where
the group's work is not done, and over before the group could go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.across_ranks.blame import transfers, waits_of
from faultline.analysis.traces.across_ranks.clocks import Clocks
from faultline.analysis.traces.across_ranks.matching import Matched, MatchedGroup
from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.columns.disjoint_intervals import (
    Spans,
    covered,
    difference,
    intersection,
    union_of,
)
from faultline.analysis.traces.columns.events import Int64
from faultline.analysis.traces.columns.steps import PHASES
from faultline.analysis.traces.per_rank import step_times
from faultline.analysis.traces.per_rank.step_times import COMMUNICATION, DATA, IDLE, OTHER

WAIT, TRANSFER = "communication wait", "communication transfer"
PARTS = (*PHASES, WAIT, TRANSFER, step_times.COPIES, IDLE, OTHER)
"""Parts of a step, in the order of a stacked chart."""
LOCAL_PARTS = tuple(p for p in PARTS if p not in (WAIT, TRANSFER))
"""Parts that lie at the rank itself."""
MAX_MEMBERS = 32
"""Of a group's ranks this many are asked whether they compute beside a transfer."""


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
            self.rank,
            self.number[keep],
            self.length[keep],
            {part: ns[keep] for part, ns in self.parts.items()},
        )


def rank_steps(
    ranks: Sequence[RankSummary], matched: Matched, clocks: Clocks
) -> tuple[RankSteps, ...]:
    """All steps of every rank. Without matched collectives all communication is transfer."""
    hidden = [
        (s.hidden.start - o, s.hidden.end - o)
        for s, o in zip(ranks, clocks.offset.tolist(), strict=True)
    ]
    # Without a common clock nobody can say who computed at the same moment.
    computed = {id(b): _computed(b, hidden) for b in matched.groups} if clocks.agree else {}
    return tuple(
        _of(summary, place, matched, clocks, computed) for place, summary in enumerate(ranks)
    )


def _computed(block: MatchedGroup, hidden: Sequence[Spans]) -> Spans:
    """When data moved in the group and one of its ranks (of MAX_MEMBERS, evenly chosen) computed
    beside it."""
    count = len(block.places)
    chosen = block.places[np.linspace(0, count - 1, min(count, MAX_MEMBERS)).astype(np.int64)]
    return intersection(transfers(block), union_of(*(hidden[place] for place in chosen.tolist())))


def _of(
    summary: RankSummary,
    place: int,
    matched: Matched,
    clocks: Clocks,
    computed: Mapping[int, Spans],
) -> RankSteps:
    steps, offset = summary.steps, int(clocks.offset[place])
    beside = [computed[id(block)] for block, _ in matched.of(place) if id(block) in computed]
    starts, ends = union_of(waits_of(place, matched, clocks_agree=clocks.agree), *beside)
    waiting = difference((starts + offset, ends + offset), summary.hidden.spans)
    communication = steps.parts[COMMUNICATION]
    # Waiting is part of the step's communication, so it cannot exceed that.
    wait = np.minimum(covered(waiting, steps.start, steps.end), communication)
    parts = {part: steps.parts[part] for part in LOCAL_PARTS} | {
        WAIT: wait,
        TRANSFER: communication - wait,
    }
    return RankSteps(
        summary.rank, steps.number, steps.end - steps.start, {part: parts[part] for part in PARTS}
    )
