"""The same kernels on different ranks: a rank on which most of them take longer has a slower
device.

Kernels are the same where name, grid and block agree. Heat, a power limit or a lower clock slow all
of a device's kernels; other input slows some.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable

SLOWER = 1.1
"""Median duration over the median of the other ranks from which a kernel is slower
(training-telemetry rule 25)."""
MIN_COUNT = 5
"""A rank's kernel is compared when it ran at least so often (our choice: medians of fewer are
noise)."""
MIN_KERNELS = 5
"""Fewer kernels in common say nothing of a device (our choice)."""
MOST = 0.5
"""Share of the compared kernels' time in slower ones from which the device is slow (our choice, as
for stragglers)."""
MANY_RANKS = 16
"""From this many ranks on the median of all stands for that of the others."""
MAX_NAMED = 5
_Tables = tuple[list[str], NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class SlowerKernel:
    """One kernel on one rank; ns."""

    name: str
    rank_median: int
    peer_median: float

    @property
    def ratio(self) -> float:
        """Own over the others'."""
        return self.rank_median / self.peer_median if self.peer_median else 0.0


@dataclass(frozen=True)
class RankSpeed:
    """How fast one rank's device runs what the others run too."""

    rank: int
    kernels: int
    """Kernels that could be compared."""
    ratio: float
    """Time it takes over the time the others would, weighted by time; 1 is as fast."""
    slower_share: float
    """Share of the compared time that lies in kernels at least SLOWER times slower."""
    slowest: tuple[SlowerKernel, ...]
    """Those that cost the most extra time."""

    @property
    def slow(self) -> bool:
        """Whether the device is slow: many kernels, most of the time, by enough."""
        return self.kernels >= MIN_KERNELS and self.ratio >= SLOWER and self.slower_share >= MOST


def rank_speeds(ranks: Sequence[RankSummary]) -> tuple[RankSpeed, ...]:
    """One per rank that shares kernels with others. O(ranks x kernels).

    Where several devices are slow all are compared with the rest: a whole host's heat must not
    count as usual.
    """
    tables = _tables(ranks)
    speeds = _compared(ranks, tables, np.ones(len(ranks), dtype=np.bool_))
    slow = {speed.rank for speed in speeds if speed.slow}
    usual = np.asarray([s.rank not in slow for s in ranks], dtype=np.bool_)
    # A single slow rank hardly moves the median of the others; several do.
    return _compared(ranks, tables, usual) if len(slow) > 1 and usual.any() else speeds


def _compared(
    ranks: Sequence[RankSummary], tables: _Tables, usual: NDArray[np.bool_]
) -> tuple[RankSpeed, ...]:
    """Every rank against the usual ones."""
    names, median, total = tables
    # Of many ranks no single one moves the median, so compute it once for all.
    common = _median(median[:, usual]) if len(ranks) >= MANY_RANKS and len(names) else None
    speeds = []
    for place, summary in enumerate(ranks):
        rank_median = median[:, place]
        rest = usual & (np.arange(len(ranks)) != place)
        beside = common if common is not None else _median(median[:, rest])
        rows = np.flatnonzero(~np.isnan(rank_median) & (rank_median > 0) & (beside > 0))
        speed = _speed(
            summary.rank,
            [names[r] for r in rows.tolist()],
            rank_median[rows],
            beside[rows],
            total[rows, place],
        )
        if speed is not None:
            speeds.append(speed)
    return tuple(speeds)


DURATIONS = RowTable(
    TEXT("kernel"),
    INT("rank", "count", "total_ns", "shortest_ns", "median_ns", "p95_ns", "longest_ns"),
)


def kernel_distribution(ranks: Sequence[RankSummary], most: int = 20) -> Rows:
    """Durations per kernel and rank, of the kernels with the most time over all ranks; JSON
    values."""
    total: dict[str, int] = defaultdict(int)
    for summary in ranks:
        for name, ns in zip(summary.kernels.names, summary.kernels.total.tolist(), strict=True):
            total[name] += ns
    top = sorted(total, key=lambda name: -total[name])[:most]
    places = [{name: i for i, name in enumerate(s.kernels.names)} for s in ranks]
    rows = []
    for name in top:
        for summary, place in zip(ranks, places, strict=True):
            if name in place:
                kernels = summary.kernels
                times = (
                    kernels.count,
                    kernels.total,
                    kernels.shortest,
                    kernels.median,
                    kernels.p95,
                    kernels.longest,
                )
                rows.append((name, summary.rank, *(column[place[name]] for column in times)))
    return DURATIONS.of(rows)


def _tables(ranks: Sequence[RankSummary]) -> _Tables:
    """Names, and median and total duration of each on each rank; NaN where the rank runs it too
    seldom."""
    ids: dict[str, int] = {}
    for summary in ranks:
        for name in summary.kernels.names:
            ids.setdefault(name, len(ids))
    median = np.full((len(ids), len(ranks)), np.nan)
    total = np.full((len(ids), len(ranks)), np.nan)
    for place, summary in enumerate(ranks):
        kernels = summary.kernels
        often = np.flatnonzero(kernels.count >= MIN_COUNT)
        rows = np.asarray([ids[kernels.names[i]] for i in often.tolist()], dtype=np.int64)
        median[rows, place], total[rows, place] = kernels.median[often], kernels.total[often]
    # A kernel that only one rank ran often enough has nothing to compare with.
    shared = (~np.isnan(median)).sum(axis=1) >= 2
    return (
        [n for n, keep in zip(ids, shared.tolist(), strict=True) if keep],
        median[shared],
        total[shared],
    )


def _median(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Median of each row over ranks; NaN where none of them has the kernel."""
    median = np.full(len(columns), np.nan)
    have = ~np.isnan(columns).all(axis=1)
    median[have] = np.nanmedian(columns[have], axis=1)
    return median


def _speed(
    rank: int,
    names: list[str],
    rank_median: NDArray[np.float64],
    beside: NDArray[np.float64],
    spent: NDArray[np.float64],
) -> RankSpeed | None:
    if not names:
        return None
    ratio = rank_median / beside
    expected = spent / ratio
    # The difference is negative for lost time, so the costliest kernels sort first.
    costliest = np.argsort(expected - spent, kind="stable")[:MAX_NAMED].tolist()
    return RankSpeed(
        rank=rank,
        kernels=len(names),
        ratio=float(spent.sum() / max(expected.sum(), 1.0)),
        slower_share=float(spent[ratio >= SLOWER].sum() / max(spent.sum(), 1.0)),
        slowest=tuple(
            SlowerKernel(names[i], int(rank_median[i]), float(beside[i]))
            for i in costliest
            if ratio[i] >= SLOWER
        ),
    )
