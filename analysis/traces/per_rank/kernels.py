"""Kernels by kind and by name: how often, how long, how evenly.

The kinds are HTA's types with their overlaps; the statistics are of the kernels' lengths (HTA's are
of sums as soon as it cuts its list, so that its minimum, maximum and mean are all the same).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from faultline.analysis.traces.columns.device import DeviceWork, Kind, device_work
from faultline.analysis.traces.columns.distribution import Distribution, distribution, distributions
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.columns.intervals import union
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable, rounded

KINDS = {
    Kind.COMPUTATION: "computation",
    Kind.COMMUNICATION: "communication",
    Kind.MEMORY: "memory",
}
REST = "others"


@dataclass(frozen=True)
class KindTime:
    """Time in which exactly these kinds of work run."""

    label: str
    """"computation", "computation overlapping communication", ..."""
    total_ns: int
    percent: float
    """Of the time in which anything runs."""


@dataclass(frozen=True)
class KernelTime:
    """All kernels of one name."""

    name: str
    """`REST` for all that were cut."""
    kind: str
    """A value of `KINDS`; `REST` for the cut."""
    times: Distribution
    """Lengths, ns."""
    percent: float
    """Of the sum of all kernels' lengths."""


@dataclass(frozen=True)
class KernelSpread:
    """How one kernel differs between ranks."""

    name: str
    kind: str
    ranks: int
    total_ns: int
    """Of all ranks."""
    fastest_rank: int
    slowest_rank: int
    fastest_mean_ns: float
    median_mean_ns: float
    """The middle one of the ranks' mean lengths."""
    slowest_mean_ns: float

    @property
    def slowdown(self) -> float:
        """The slowest rank's mean over the middle one; 1.0 where none differs."""
        return self.slowest_mean_ns / self.median_mean_ns if self.median_mean_ns else 1.0


def kernel_types(trace: TraceColumns) -> tuple[KindTime, ...]:
    """How long each kind of work runs alone, and each combination together; longest first."""
    return kind_times(device_work(trace))


def kind_times(work: DeviceWork, kinds: Sequence[Kind] = tuple(KINDS)) -> tuple[KindTime, ...]:
    """The same of some kinds of some work. O(n log n)."""
    times, changes = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    # One bit per kind: the running sum is the mask of what runs.
    for bit, kind in enumerate(kinds):
        starts, ends = union(*work.of(kind))
        times += [starts, ends]
        changes += [np.full(len(starts), 1 << bit), np.full(len(ends), -(1 << bit))]
    time, change = np.concatenate(times), np.concatenate(changes)
    order = np.argsort(time, kind="stable")
    running = np.cumsum(change[order])[:-1]
    spent = np.zeros(1 << len(kinds), dtype=np.int64)
    np.add.at(spent, running, np.diff(time[order]))
    # Mask 0 is idle time.
    busy = int(spent[1:].sum())
    kind_time = [
        KindTime(_label(mask, kinds), int(spent[mask]), 100.0 * int(spent[mask]) / busy)
        for mask in range(1, len(spent))
        if spent[mask]
    ]
    return tuple(sorted(kind_time, key=lambda k: (-k.total_ns, k.label)))


def kernel_breakdown(
    trace: TraceColumns, top: int | None = None, share: float = 1.0
) -> tuple[KernelTime, ...]:
    """Kernels by name, the longest in all first. O(n log n).

    Only the first `top` names are kept, and of these only as many as fill this share of the time;
    what is cut stands in one last entry `REST`, with the statistics of its kernels.
    """
    work = device_work(trace)
    key = work.kind * np.int64(len(trace.names)) + trace.name[work.row]
    used = (
        np.flatnonzero(np.bincount(key, minlength=1)) if len(key) else np.empty(0, dtype=np.int64)
    )
    place = np.zeros(int(used[-1]) + 1 if len(used) else 1, dtype=np.int64)
    place[used] = np.arange(len(used))
    group, lengths = place[key], work.end - work.start
    spread = distributions(lengths, group, len(used))
    order = np.argsort(-spread.total.astype(np.int64), kind="stable")
    whole = int(spread.total.sum())
    descending = spread.total[order].astype(np.int64)
    count = len(descending) if top is None else min(top, len(descending))
    # + 1: the name that reaches the share is kept, too.
    if share < 1.0:
        count = min(count, int(np.searchsorted(np.cumsum(descending), share * whole)) + 1)
    largest = order[:count]
    kernel_time = []
    for index in largest.tolist():
        kind, name = divmod(int(used[index]), len(trace.names))
        kernel_time.append(
            _kernel_time(trace.names[name], KINDS[Kind(kind)], spread.at(index), whole)
        )
    if len(largest) < len(order):
        rest = ~np.isin(group, largest)
        kernel_time.append(_kernel_time(REST, REST, distribution(lengths[rest]), whole))
    return tuple(kernel_time)


def kernel_distribution(by_rank: Mapping[int, Sequence[KernelTime]]) -> tuple[KernelSpread, ...]:
    """How each kernel's mean length differs between ranks; the longest in all first."""
    by_name: dict[tuple[str, str], list[tuple[float, int, float]]] = {}
    for rank, kernels in sorted(by_rank.items()):
        for kernel in kernels:
            if kernel.kind != REST:
                entry = (kernel.times.mean, rank, kernel.times.total)
                by_name.setdefault((kernel.name, kernel.kind), []).append(entry)
    kernel_spreads = []
    for (name, kind), entries in by_name.items():
        # Of equal means take the lower rank, at both ends.
        fastest, slowest = min(entries), max(entries, key=lambda e: (e[0], -e[1]))
        middle = median(mean for mean, _, _ in entries)
        total = int(sum(sum_ns for _, _, sum_ns in entries))
        kernel_spreads.append(
            KernelSpread(
                name,
                kind,
                len(entries),
                total,
                fastest[1],
                slowest[1],
                fastest[0],
                middle,
                slowest[0],
            )
        )
    return tuple(sorted(kernel_spreads, key=lambda k: (-k.total_ns, k.name)))


TABLE = RowTable(
    TEXT("name", "kind"),
    INT(count="times.count", total_ns="times.total"),
    rounded(2, time_percent="percent"),
    rounded(1, mean_ns="times.mean", std_ns="times.std"),
    INT(min_ns="times.min"),
    rounded(1, p50_ns="times.p50", p90_ns="times.p90", p99_ns="times.p99"),
    INT(max_ns="times.max"),
)


def rows(trace: TraceColumns) -> Rows:
    """One row per kernel, the longest in all first."""
    return TABLE.rows(kernel_breakdown(trace))


def _label(mask: int, kinds: Sequence[Kind]) -> str:
    return " overlapping ".join(KINDS[kind] for bit, kind in enumerate(kinds) if mask >> bit & 1)


def _kernel_time(name: str, kind: str, times: Distribution, whole: int) -> KernelTime:
    return KernelTime(name, kind, times, 100.0 * times.total / whole if whole else 0.0)
