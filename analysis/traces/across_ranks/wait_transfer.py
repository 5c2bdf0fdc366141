"""Every matched collective split into waiting and transfer, and the bandwidth that the transfer
reached.

A rank waits in a synchronising collective until the last rank has entered; from then on data moves.
Where the ranks' clocks do not agree the shortest duration over the ranks stands for the transfer
(TensorBoard's plugin does only this). Bandwidths are those of nccl-tests (doc/PERFORMANCE.md):
algorithm bandwidth is size over time; bus bandwidth is that times what each link must carry per
byte of size, and compares with the hardware's whatever the number of ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.traces.across_ranks.matching import Matched, MatchedGroup
from analysis.traces.across_ranks.rank_summary import RankSummary
from analysis.traces.columns.disjoint_intervals import difference, length
from analysis.traces.columns.events import Bool, Int64
from analysis.traces.columns.intervals import union
from analysis.traces.per_rank.collective_calls import ProcessGroup
from analysis.traces.per_rank.collective_names import OTHER, POINT_TO_POINT

MAX_ROWS = 200
"""Rows of the table kept: those with the most time."""


@dataclass(frozen=True)
class CollectiveRow:
    """All collectives of one operation, process group and size; ns."""

    operation: str
    group: str
    """Description of the process group, else its name; "" where the trace does not say."""
    ranks: int
    """Ranks of the group (those with a trace, where its size is unknown)."""
    bytes: int
    """As nccl-tests counts size; 0 where unknown."""
    count: int
    wait: int
    """Mean over the ranks of what each waited, over all of these collectives."""
    worst_wait: int
    """What the longest waiting rank of each waited, over all of these collectives."""
    transfer: int
    """Over all of these collectives."""
    median_transfer: int
    algorithm_bandwidth: float | None
    """GB/s (10**9) at the median transfer; None where the size or the time is unknown."""
    bus_bandwidth: float | None
    at_least: bool
    """Some ranks have no trace: what is called transfer may hold waiting for them; bandwidths are
    lower bounds."""


@dataclass(frozen=True)
class CollectiveTable:
    """Waiting and transfer of a job."""

    rows: tuple[CollectiveRow, ...]
    by: str
    """How the two were distinguished: "arrival", "shortest duration", or "duration" (one rank: not
    at all)."""
    cut: int = 0
    """Rows left out."""


def bus_factor(operation: str, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth (nccl-tests, PERFORMANCE.md)."""
    if ranks < 2:
        return 1.0
    if operation == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (
        (ranks - 1) / ranks if operation in ("all_gather", "reduce_scatter", "all_to_all") else 1.0
    )


def collective_table(
    matched: Matched, world_size: int | None, *, clocks_agree: bool
) -> CollectiveTable:
    """The split of every matched collective, summed by operation, group and size.

    A group of which the trace tells neither name nor size is taken for the world.
    """
    partial = {g.key for g in matched.partial_groups}
    rows: list[CollectiveRow] = []
    for block in matched.groups:
        wait, transfer = split(block, clocks_agree=clocks_agree)
        keys = np.stack((block.operation, block.bytes))
        distinct, place = np.unique(keys, axis=1, return_inverse=True)
        for i, (operation, size) in enumerate(distinct.T.tolist()):
            mine = place.ravel() == i
            ranks = (
                block.group.size or (None if block.group.name else world_size) or len(block.places)
            )
            facts = (block.operations[operation], block.group, ranks, size)
            rows.append(
                _row(*facts, wait[mine], transfer[mine], at_least=block.group.key in partial)
            )
    return _table(rows, "arrival" if clocks_agree else "shortest duration")


def table_of_one(summary: RankSummary) -> CollectiveTable:
    """One rank's collectives: their durations, which hold waiting that one rank's trace cannot tell
    apart."""
    calls = summary.collectives
    rows = []
    keys = np.stack((calls.operation, calls.group, calls.bytes))
    distinct, place = np.unique(keys, axis=1, return_inverse=True)
    for i, (operation, group, size) in enumerate(distinct.T.tolist()):
        if calls.operations[operation] in (OTHER, *POINT_TO_POINT):
            continue
        mine = place.ravel() == i
        ranks = calls.groups[group].size or summary.world_size or 1
        took = (calls.end - calls.start)[mine]
        facts = (calls.operations[operation], calls.groups[group], ranks, size)
        rows.append(_row(*facts, np.zeros((len(took), 1), dtype=np.int64), took, at_least=True))
    return _table(rows, "duration")


def split(block: MatchedGroup, *, clocks_agree: bool) -> tuple[Int64, Int64]:
    """ns each rank waited (rows x ranks), and ns of transfer (rows)."""
    took = block.end - block.start
    shortest = took.min(axis=1)
    if not clocks_agree:
        return took - shortest[:, None], shortest
    last = block.last_arrival
    wait = np.clip(last[:, None] - block.start, 0, took)
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
    found = []
    for i, operation in enumerate(calls.operations):
        mine = inside & (calls.operation == i)
        total, exposed = united(summary, mine)
        share = exposed / max(whole, 1)
        found.append(
            Exposure(
                summary.rank,
                operation,
                int(mine.sum()),
                total / per_step,
                exposed / per_step,
                share,
            )
        )
    return tuple(sorted((e for e in found if e.count), key=lambda e: -e.exposed))


def united(summary: RankSummary, rows: Bool) -> tuple[int, int]:
    """ns of these collectives and of what no computation hides, those in flight at once counted
    once."""
    calls = summary.collectives
    spans = union(calls.start[rows], calls.end[rows])
    total = length(spans)
    if total == int((calls.end - calls.start)[rows].sum()):
        return total, int(calls.exposed[rows].sum())
    return total, length(difference(spans, summary.hidden.spans))


def rows_of(table: CollectiveTable) -> list[dict[str, Any]]:
    """The table as JSON values."""
    told: list[dict[str, Any]] = [
        {
            "operation": r.operation,
            "group": r.group,
            "ranks": r.ranks,
            "bytes": r.bytes,
            "count": r.count,
            "wait_ns": r.wait,
            "worst_wait_ns": r.worst_wait,
            "transfer_ns": r.transfer,
            "median_transfer_ns": r.median_transfer,
            "algorithm_gb_per_s": r.algorithm_bandwidth,
            "bus_gb_per_s": r.bus_bandwidth,
            "at_least": r.at_least,
            "split_by": table.by,
        }
        for r in table.rows
    ]
    return [*told, {"cut": table.cut}] if table.cut else told


def _row(
    operation: str,
    group: ProcessGroup,
    ranks: int,
    size: int,
    wait: Int64,
    transfer: Int64,
    *,
    at_least: bool,
) -> CollectiveRow:
    median = int(np.median(transfer))
    rate = size / median if size and median else None
    return CollectiveRow(
        operation=operation,
        group=group.description or group.name,
        ranks=ranks,
        bytes=size,
        count=len(transfer),
        wait=int(wait.mean(axis=1).sum()),
        worst_wait=int(wait.max(axis=1).sum()),
        transfer=int(transfer.sum()),
        median_transfer=median,
        algorithm_bandwidth=rate,
        bus_bandwidth=rate * bus_factor(operation, ranks) if rate is not None else None,
        at_least=at_least,
    )


def _table(rows: Sequence[CollectiveRow], by: str) -> CollectiveTable:
    ordered = sorted(rows, key=lambda r: -(r.wait + r.transfer))
    return CollectiveTable(tuple(ordered[:MAX_ROWS]), by, max(len(ordered) - MAX_ROWS, 0))
