"""What takes the most time, all ranks together: kernels on the device, operators on the host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.across_ranks.rank_summary import RankSummary


@dataclass(frozen=True)
class KernelLine:
    """One kernel, all ranks together; ns."""

    name: str
    count: int
    total: int
    median: float
    longest: int
    fastest_rank: float
    """Its median on the rank where it is fastest."""
    slowest_rank: float
    slowest: int
    """The rank where its median is longest."""


def kernel_lines(summaries: Sequence[RankSummary]) -> list[KernelLine]:
    """Kernels of computation and communication of all ranks, by total time; a kernel is its name
    and launch shape."""
    rows_by_name: dict[str, list[tuple[int, int, int, int, int]]] = {}
    for s in summaries:
        for speeds in (s.kernels, s.communication_kernels):
            columns = np.stack((speeds.count, speeds.total, speeds.median, speeds.longest))
            for name, row in zip(speeds.names, columns.T.tolist(), strict=True):
                rows_by_name.setdefault(name, []).append((s.rank, *row))
    kernels = []
    for name, rows in rows_by_name.items():
        slowest = max(rows, key=lambda r: r[3])
        kernels.append(
            KernelLine(
                name=name,
                count=sum(r[1] for r in rows),
                total=sum(r[2] for r in rows),
                median=float(np.median([r[3] for r in rows])),
                longest=max(r[4] for r in rows),
                fastest_rank=min(r[3] for r in rows),
                slowest_rank=slowest[3],
                slowest=slowest[0],
            )
        )
    return sorted(kernels, key=lambda k: (-k.total, k.name))


def kernel_time(summaries: Sequence[RankSummary]) -> int:
    """ns of all kernels of computation and communication of all ranks, also of those that are no
    lines; at least 1."""
    whole = 0
    for s in summaries:
        for speeds in (s.kernels, s.communication_kernels):
            whole += int(speeds.total.sum()) + speeds.cut_ns
    return max(whole, 1)


def operator_lines(summaries: Sequence[RankSummary]) -> list[tuple[str, float]]:
    """(operator, its own ns per step), mean over ranks, by time."""
    ns_by_operator: dict[str, float] = defaultdict(float)
    for s in summaries:
        for name, ns in s.operations.per_step().items():
            # A rank that does not run the operator counts as 0 in the mean.
            ns_by_operator[name] += ns / len(summaries)
    return sorted(ns_by_operator.items(), key=lambda item: (-item[1], item[0]))
