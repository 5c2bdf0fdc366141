"""Every matched collective split into waiting and transfer, and the bandwidth that the transfer
reached.

A rank waits in a synchronising collective until the last rank has entered; from then on data moves.
Where the ranks' clocks do not agree the shortest duration over the ranks stands for the transfer
(TensorBoard's plugin does only this).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.across_ranks.matching import Matched, MatchedGroup
from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.columns.disjoint_intervals import difference, length
from faultline.analysis.traces.columns.events import Bool, Int64
from faultline.analysis.traces.columns.intervals import union
from faultline.analysis.traces.costs.accelerators import accelerator_named
from faultline.analysis.traces.per_rank.collective_bandwidth import (
    UNKNOWN_LINK,
    CallTimes,
    CollectiveRow,
    Link,
    by_size,
    collective_row,
    link_within,
    rank_rows,
)
from faultline.analysis.traces.per_rank.collective_names import POINT_TO_POINT


@dataclass(frozen=True)
class CollectiveTable:
    """Waiting and transfer of a job."""

    rows: tuple[CollectiveRow, ...]
    by: str
    """How the two were distinguished: "arrival", "shortest duration", or "duration" (one rank: not
    at all)."""


def collective_table(
    matched: Matched,
    ranks: Sequence[RankSummary],
    world_size: int | None,
    *,
    clocks_agree: bool,
) -> CollectiveTable:
    """The split of every matched collective, summed by operation, group and size. `ranks` are the
    summaries that were matched, in their order.

    A group counts as the world where the trace gives neither its name nor its size.
    """
    partial = {g.key for g in matched.partial_groups}
    rows: list[CollectiveRow] = []
    for block in matched.groups:
        wait, transfer = split(block, clocks_agree=clocks_agree)
        exposed, awaited = np.empty_like(block.row), np.empty_like(block.row)
        for column, place in enumerate(block.places.tolist()):
            calls, row = ranks[place].collectives, block.row[:, column]
            exposed[:, column], awaited[:, column] = calls.exposed[row], calls.awaited[row]
        times = CallTimes(block.end - block.start, wait, exposed, awaited, transfer)
        size = block.group.size or (None if block.group.name else world_size) or len(block.places)
        at_least = block.group.key in partial
        # Ranks without a trace may be on another host, so the link stays unknown.
        link = UNKNOWN_LINK if at_least else _link([ranks[p] for p in block.places.tolist()])
        for (operation,), mine in by_size(block.operation, sizes=block.bytes):
            facts = (block.operations[operation], block.group, size, block.bytes[mine])
            rows.append(collective_row(*facts, times.select(mine), link=link, at_least=at_least))
    return _table(rows, "arrival" if clocks_agree else "shortest duration")


def rank_table(summary: RankSummary) -> CollectiveTable:
    """One rank's collectives: their durations, which hold waiting that one rank's trace cannot tell
    apart."""
    rows = rank_rows(summary.collectives, summary.world_size)
    return _table([r for r in rows if r.operation not in POINT_TO_POINT], "duration")


def _link(ranks: Sequence[RankSummary]) -> Link:
    """Known where the traces say that all ranks of a group are on one host, and on what devices."""
    first = ranks[0]
    if first.host is None or any(s.host != first.host for s in ranks):
        return UNKNOWN_LINK
    if any(s.accelerator.name != first.accelerator.name for s in ranks):
        return UNKNOWN_LINK
    return link_within(accelerator_named(first.accelerator.name), len(ranks))


def split(block: MatchedGroup, *, clocks_agree: bool) -> tuple[Int64, Int64]:
    """ns each rank waited (rows x ranks), and ns of transfer (rows)."""
    took = block.end - block.start
    shortest = took.min(axis=1)
    # Without a common clock arrivals do not compare, only lengths do.
    if not clocks_agree:
        return took - shortest[:, None], shortest
    last = block.last_arrival
    wait = np.clip(last[:, None] - block.start, 0, took)
    # Take the median over ranks: one that leaves late must not stretch the transfer.
    transfer = np.maximum(np.median(block.end - last[:, None], axis=1).astype(np.int64), 0)
    waits = block.synchronising
    return (
        np.where(waits[:, None], wait, took - shortest[:, None]),
        np.where(waits, transfer, shortest),
    )


@dataclass(frozen=True)
class Exposure:
    """One operation of one rank: how much of it no computation of the rank hides; ns per step.

    Of collectives in flight at once each moment counts once.
    """

    rank: int
    operation: str
    count: int
    total: float
    exposed: float
    step_share: float
    """Exposed time over step time."""

    @property
    def hidden_percent(self) -> float:
        """Share of the operation's time in which the rank computed."""
        return 100.0 * (1 - self.exposed / self.total) if self.total else 0.0


def exposures(summary: RankSummary) -> tuple[Exposure, ...]:
    """By operation, those within steps (all, where there are no steps), the most exposed first."""
    calls, steps = summary.collectives, summary.steps
    inside = calls.step >= 0 if len(steps) else np.ones(len(calls), dtype=np.bool_)
    per_step = max(len(steps), 1)
    whole = (
        int((steps.end - steps.start).sum()) if len(steps) else summary.end_ns - summary.start_ns
    )
    by_operation = []
    for i, operation in enumerate(calls.operations):
        mine = inside & (calls.operation == i)
        total, exposed = united(summary, mine)
        share = exposed / max(whole, 1)
        by_operation.append(
            Exposure(
                summary.rank,
                operation,
                int(mine.sum()),
                total / per_step,
                exposed / per_step,
                share,
            )
        )
    return tuple(sorted((e for e in by_operation if e.count), key=lambda e: -e.exposed))


def united(summary: RankSummary, rows: Bool) -> tuple[int, int]:
    """ns of these collectives and of what no computation hides, those in flight at once counted
    once."""
    calls = summary.collectives
    spans = union(calls.start[rows], calls.end[rows])
    total = length(spans)
    # No two calls overlap, so the exposure stored with each adds up exactly.
    if total == int((calls.end - calls.start)[rows].sum()):
        return total, int(calls.exposed[rows].sum())
    return total, length(difference(spans, summary.hidden.spans))


def _table(rows: Sequence[CollectiveRow], by: str) -> CollectiveTable:
    ordered = sorted(rows, key=lambda r: -(r.wait + r.transfer))
    return CollectiveTable(tuple(ordered), by)
