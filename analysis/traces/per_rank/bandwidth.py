"""Copies and fills of the accelerator's memory: how much, which way, how fast, and how many at
once.

The series is HTA's `get_memory_bw_time_series`: each copy adds its bandwidth while it runs. It is
kept in whole bytes per second, so that it returns to exactly zero (HTA's leaves 1e-15 GB/s behind,
and counts it); HIP's, XPU's and ROCprofiler's names are known, and a bandwidth that the trace does
not give is bytes over time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.device import Kind, device_work
from faultline.analysis.traces.columns.distribution import Distribution, distributions
from faultline.analysis.traces.columns.events import Int64, TraceColumns
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable, rounded

BANDWIDTH, BYTES = "memory bandwidth (GB/s)", "bytes"
MOST_GBPS = 1e6
"""No memory is faster; a larger number in a trace is not believed."""
Host = Literal["pageable", "pinned", ""]
UNKNOWN, FILL = "Memcpy unknown", "Memset"
_SHORT = re.compile(r"([HDPAM])(?:to|2)([HDPAM])(?![a-z])")
_LONG = re.compile(r"(Host|Device|Peer)_?To_?(Host|Device|Peer)", re.IGNORECASE)
_FILL = re.compile(r"mem(ory)?_?(set|fill)|fillbuffer", re.IGNORECASE)


@dataclass(frozen=True)
class CopyColumns:
    """The rank's copies and fills, by start."""

    row: Int64
    start: Int64
    end: Int64
    direction: Int64
    """Index into `directions`."""
    bytes: Int64
    """-1 where the trace does not say."""
    bytes_per_second: Int64
    """0 where unknown, and for a copy without length."""
    directions: tuple[str, ...]
    """"Memcpy HtoD", "Memset", ... in order of the alphabet."""


@dataclass(frozen=True)
class BandwidthSeries:
    """Changes of the bandwidth in use, by direction, then by time; a value holds until the
    direction's next."""

    time: Int64
    """ns since the epoch."""
    direction: Int64
    """Index into `directions`."""
    bytes_per_second: Int64
    directions: tuple[str, ...]

    @property
    def gbps(self) -> NDArray[np.float64]:
        """In GB/s (10**9), as profilers write it."""
        return np.asarray(self.bytes_per_second / 1e9)


@dataclass(frozen=True)
class CopyTotal:
    """All copies of one direction from or to one sort of host memory."""

    direction: str
    host: Host
    """What the name says of the host's memory; "" where it says nothing."""
    count: int
    bytes: int
    """Of the copies that say how many."""
    without_bytes: int
    """Copies that do not."""
    duration_ns: int
    """Sum of their lengths."""

    @property
    def gbps(self) -> float:
        """Bytes over time."""
        return self.bytes / self.duration_ns if self.duration_ns else 0.0


@dataclass(frozen=True)
class BandwidthSummary:
    """One direction's bandwidth, GB/s."""

    direction: str
    points: Distribution
    """Of the series' values above zero, as HTA summarizes them; all 0 where no bandwidth is
    known."""
    mean_in_use: float
    """Over the time in which it is above zero."""


def copies_of(trace: TraceColumns) -> CopyColumns:
    """The copies and fills, with what the trace says of them."""
    work = device_work(trace)
    work = work.only(work.kind == Kind.MEMORY)
    used, place = np.unique(trace.name[work.row], return_inverse=True)
    by_name = [direction_of(trace.names[i]) for i in used.tolist()]
    directions = tuple(sorted(set(by_name)))
    index = np.asarray([directions.index(d) for d in by_name], dtype=np.int64)[place]
    trace_speed = trace.arguments.number(BANDWIDTH).at(work.row, 0.0)
    size = trace.arguments.number(BYTES).at(work.row, -1.0)
    # Beyond 2**53 a float64 skips whole numbers: do not believe such a size.
    size = np.where((size >= 0) & (size < 2**53), size, -1.0)
    length = work.end - work.start
    measured = np.where(size > 0, size, 0.0) / np.maximum(length, 1)
    # Believe the trace's figure within reason; else bytes per ns are GB/s.
    speed = np.where((trace_speed > 0) & (trace_speed < MOST_GBPS), trace_speed, measured)
    speed = np.where((length > 0) & (speed < MOST_GBPS), speed, 0.0)
    whole = np.rint(speed * 1e9).astype(np.int64)
    return CopyColumns(
        work.row, work.start, work.end, index, size.astype(np.int64), whole, directions
    )


def bandwidth_series(trace: TraceColumns) -> BandwidthSeries:
    """The bandwidth in use over time, by direction; copies without length or known bandwidth are
    not in it."""
    copies = copies_of(trace)
    has_speed = copies.bytes_per_second > 0
    speed, index = copies.bytes_per_second[has_speed], copies.direction[has_speed]
    # Ends stand first, so that copies that touch do not add up for a moment.
    time = np.concatenate((copies.end[has_speed], copies.start[has_speed]))
    direction = np.concatenate((index, index))
    order = np.lexsort((time, direction))
    level = np.cumsum(np.concatenate((-speed, speed))[order])
    return BandwidthSeries(time[order], direction[order], level, copies.directions)


def bandwidth_summary(series: BandwidthSeries) -> tuple[BandwidthSummary, ...]:
    """Statistics of each direction's values above zero."""
    count = len(series.directions)
    busy = series.bytes_per_second > 0
    spread = distributions(series.gbps[busy], series.direction[busy], count)
    # Each direction ends at 0, so the jump to the next one counts nothing.
    spent = np.append(np.diff(series.time), 0)
    moved, used = np.zeros(count), np.zeros(count, dtype=np.int64)
    np.add.at(moved, series.direction[busy], (series.gbps * spent)[busy])
    np.add.at(used, series.direction[busy], spent[busy])
    return tuple(
        BandwidthSummary(name, spread.at(i), float(moved[i]) / int(used[i]) if used[i] else 0.0)
        for i, name in enumerate(series.directions)
    )


def copy_totals(trace: TraceColumns) -> tuple[CopyTotal, ...]:
    """Copies by direction and sort of host memory, the longest in all first."""
    copies = copies_of(trace)
    totals = []
    names = trace.name[copies.row]
    used, place = np.unique(names, return_inverse=True)
    kinds = [(direction_of(trace.names[i]), host_memory(trace.names[i])) for i in used.tolist()]
    for kind in sorted(set(kinds)):
        mine = np.asarray([k == kind for k in kinds])[place]
        size = copies.bytes[mine]
        length = int((copies.end - copies.start)[mine].sum())
        total = int(size[size >= 0].sum())
        totals.append(CopyTotal(*kind, int(mine.sum()), total, int((size < 0).sum()), length))
    return tuple(sorted(totals, key=lambda t: (-t.duration_ns, t.direction, t.host)))


def direction_of(name: str) -> str:
    """ "Memcpy HtoD" and the like, "Memset", or "Memcpy unknown"."""
    match = _SHORT.search(name) or _LONG.search(name)
    if match:
        source, target = (part[0].upper().replace("M", "H") for part in match.groups())
        return f"Memcpy {source}to{target}"
    return FILL if _FILL.search(name) else UNKNOWN


def host_memory(name: str) -> Host:
    """Whether the name says that the host's memory is pageable or pinned."""
    lower = name.lower()
    return "pageable" if "pageable" in lower else "pinned" if "pinned" in lower else ""


TABLE = RowTable(
    TEXT("direction", "host_memory"),
    INT("count", "bytes", "without_bytes", "total_ns"),
    rounded(3, "gbps", "direction_max_gbps", "direction_mean_gbps"),
)


def rows(trace: TraceColumns) -> Rows:
    """One row per direction and sort of host memory."""
    in_use = {summary.direction: summary for summary in bandwidth_summary(bandwidth_series(trace))}
    rows = []
    for total in copy_totals(trace):
        used = in_use[total.direction]
        copied = (total.count, total.bytes, total.without_bytes, total.duration_ns, total.gbps)
        rows.append((total.direction, total.host, *copied, used.points.max, used.mean_in_use))
    return TABLE.of(rows)
