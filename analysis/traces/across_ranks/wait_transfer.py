"""Every matched collective split into waiting and transfer, and the bandwidth that the transfer
reached.

A rank waits in a synchronising collective until the last rank has entered; from then on data moves.
Where the ranks' clocks do not agree the shortest duration over the ranks stands for the transfer
(TensorBoard's plugin does only this).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.across_ranks.matching import Matched, MatchedGroup
from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.columns.events import Bool, Int64
from faultline.analysis.traces.columns.intervals import (
    Spans,
    difference,
    intersection,
    length,
    union,
)
from faultline.analysis.traces.columns.steps import PHASES
from faultline.analysis.traces.costs.call import accelerator_named
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
from faultline.analysis.traces.per_rank.long_idle import LONG_NS


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


# Communication that could have been hidden behind computation: gradients reduced only after the
# backward pass.

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
    for calls in (rank.collectives for rank in ranks):
        gathers = calls.named("all_gather") & np.isin(calls.launched_in, (_FORWARD, _BACKWARD))
        if not gathers.any():
            return False
    return bool(ranks)


# Times in which every rank was idle at once, with no collective pending: their cause is shared.
#
# Storage, a checkpoint, a loader, a coordinator, garbage collection in all processes.

MAX_INTERVALS = 64
"""Intervals kept: the longest."""


@dataclass(frozen=True)
class IdleTogether:
    """One interval in which no rank worked; ns in the first rank's time."""

    start_ns: int
    end_ns: int
    step: int | None
    """The first rank's step in which it begins."""
    host: str
    """What most hosts did meanwhile; "" where unknown."""
    hosts_alike: int
    """Ranks whose host did that."""

    @property
    def length_ns(self) -> int:
        """Its length."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class AllIdle:
    """All such intervals of at least 1 ms."""

    intervals: tuple[IdleTogether, ...]
    """By start, the longest MAX_INTERVALS."""
    total_ns: int
    share: float
    """Of the time from the first rank's first step (or first idle time) to its last."""


def idle_together(ranks: Sequence[RankSummary], offset: Int64) -> AllIdle:
    """The intersection of the ranks' long idle intervals. O(ranks x intervals)."""
    spans: Spans | None = None
    for summary, ahead in zip(ranks, offset.tolist(), strict=True):
        rank_idle = (summary.idle.start - ahead, summary.idle.end - ahead)
        spans = rank_idle if spans is None else intersection(spans, rank_idle)
        # An empty intersection stays empty, whatever the remaining ranks did.
        if not len(spans[0]):
            break
    if spans is None or not len(spans[0]):
        return AllIdle((), 0, 0.0)
    long = np.flatnonzero(spans[1] - spans[0] >= LONG_NS)
    lengths = (spans[1] - spans[0])[long]
    # Choose by length, then restore the order in time.
    longest = np.sort(long[np.argsort(-lengths, kind="stable")][:MAX_INTERVALS])
    total = int(lengths.sum())
    intervals = tuple(
        _interval(ranks, offset, int(spans[0][i]), int(spans[1][i])) for i in longest.tolist()
    )
    return AllIdle(intervals, total, total / max(_wall(ranks[0]), 1))


def _interval(ranks: Sequence[RankSummary], offset: Int64, begin: int, end: int) -> IdleTogether:
    doing: Counter[str] = Counter()
    for summary, ahead in zip(ranks, offset.tolist(), strict=True):
        place = int(np.searchsorted(summary.idle.start, begin + ahead, side="right")) - 1
        if place >= 0 and summary.idle.host[place]:
            doing[summary.idle.host[place]] += 1
    # Break ties by name, so that equal counts give the same answer in every run.
    host, alike = max(doing.items(), key=lambda d: (d[1], d[0]), default=("", 0))
    return IdleTogether(begin, end, ranks[0].work_steps.at(begin), host, alike)


def _wall(summary: RankSummary) -> int:
    steps = summary.steps
    if len(steps):
        return int(steps.end.max() - steps.start.min())
    return summary.time_on_device.window or summary.end_ns - summary.start_ns
