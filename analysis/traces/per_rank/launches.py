"""From the host's call to the device's work: how long the call took, how long the work, how long
between them.

The statistics are HTA's `get_cuda_kernel_launch_stats`, over every call that launched something:
CUDA's runtime and driver (Triton's), graphs, HIP, MTIA, XPU. One entry per call: a graph's delay is
that of its first kernel.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from faultline.analysis.traces.columns.device import device_launches, device_rows, on_runtime
from faultline.analysis.traces.columns.distribution import Distribution, distribution, distributions
from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable, rounded

LONG_CALL_NS = 50_000
"""HTA's runtime_cutoff: a launching call that takes longer is an outlier."""
LONG_DELAY_NS = 100_000
"""HTA's launch_delay_cutoff: work that begins later after its launch waited for something."""
CallKind = Literal["kernel", "graph", "memory", "other"]
CALLS: dict[CallKind, re.Pattern[str]] = {
    "graph": re.compile(r"^(cuda|cu|hip)GraphLaunch"),
    "kernel": re.compile(
        r"^(cuda|cu|hip|hcc)(Ext)?(Module)?Launch\w*Kernel|^runFunction - "
        r"job_prep|^(ur|pi)EnqueueKernelLaunch|"
        r"^zeCommandListAppendLaunch\w*Kernel"
    ),
    "memory": re.compile(
        r"^(cuda|cu)(Memcpy|Memset)\w*Async|^hip(Memcpy\w*Async|MemcpyWithStream|Memset\w*Async)|"
        r"^enqueueCommand "
        r"memcpy|^(ur|pi)EnqueueUSM(Memcpy|Fill)|^zeCommandListAppendMemory(Copy|Fill)"
    ),
}
"""Calls that put work on a stream and return; any other call with work of its own is "other" (a
blocking copy)."""


@dataclass(frozen=True)
class Launches:
    """Calls that launched work which the trace has, in order of their rows."""

    row: Int64
    """The call."""
    first_work: Int64
    """Row of the work that began first."""
    work_count: Int64
    """More than 1 for a graph."""
    call_ns: Int64
    work_ns: Int64
    """Sum of the work's lengths."""
    delay_ns: Int64
    """From the end of the call to the begin of the first work; 0 where the work began before."""
    without_work: int
    """Launching calls whose work is not in the trace: it ran after the end of the capture, or was
    lost."""
    work_without_launch: int
    """Work whose launch is not in the trace: from before the begin of the capture."""

    def __len__(self) -> int:
        return len(self.row)

    @property
    def short_work(self) -> Bool:
        """Mask: the work is shorter than its launch, so that the host cannot keep ahead."""
        return np.asarray(self.work_ns < self.call_ns)

    @property
    def long_call(self) -> Bool:
        """Mask: the call takes unusually long."""
        return np.asarray(self.call_ns > LONG_CALL_NS)

    @property
    def long_delay(self) -> Bool:
        """Mask: the work begins long after its launch."""
        return np.asarray(self.delay_ns > LONG_DELAY_NS)


@dataclass(frozen=True)
class LaunchSummary:
    """All launches by one function; times in ns."""

    name: str
    kind: CallKind
    count: int
    works: int
    call: Distribution
    work: Distribution
    delay: Distribution
    short_work: int
    long_call: int
    long_delay: int


def launch_stats(trace: TraceColumns) -> Launches:
    """Every launch and its work. O(n log n)."""
    work = device_rows(trace)
    call = device_launches(trace)
    linked = call >= 0
    # The rows come by start, and a stable sort keeps that: the first work of a call leads.
    order = np.argsort(call[linked], kind="stable")
    work, call = work[linked][order], call[linked][order]
    first = np.flatnonzero(np.concatenate(([True], call[1:] != call[:-1]))) if len(call) else call
    row, begins = call[first], work[first]
    total = np.add.reduceat(trace.dur[work], first) if len(first) else first
    counts = np.diff(first, append=len(call))
    # Work may begin before its call returns: that is no delay.
    delay = np.maximum(trace.ts[begins] - trace.end[row], 0)
    lost = launches_without_work(trace, row)
    return Launches(row, begins, counts, trace.dur[row], total, delay, lost, int((~linked).sum()))


def launches_without_work(trace: TraceColumns, with_work: Int64 | None = None) -> int:
    """How many launching calls have no work in the trace; `with_work` are the rows of those that
    have, where known."""
    runtime = np.flatnonzero(on_runtime(trace))
    if with_work is None:
        launches = device_launches(trace)
        with_work = np.flatnonzero(np.bincount(launches[launches >= 0], minlength=1))
    counts = (
        np.bincount(trace.name[runtime], minlength=1)
        if len(runtime)
        else np.zeros(1, dtype=np.int64)
    )
    # What is left of each name launched no work that was recorded.
    np.subtract.at(counts, trace.name[with_work], 1)
    return sum(
        int(counts[i])
        for i in np.flatnonzero(counts).tolist()
        # A call of another kind may launch nothing at all.
        if call_kind(trace.names[i]) != "other"
    )


def launch_summary(trace: TraceColumns) -> tuple[LaunchSummary, ...]:
    """Launches by function, the most frequent first."""
    stats = launch_stats(trace)
    used, group = np.unique(trace.name[stats.row], return_inverse=True)
    spreads = [
        distributions(column, group, len(used))
        for column in (stats.call_ns, stats.work_ns, stats.delay_ns)
    ]
    marks = [
        np.bincount(group, mask, len(used))
        for mask in (stats.short_work, stats.long_call, stats.long_delay)
    ]
    works = np.bincount(group, stats.work_count, len(used))
    launch_summaries = []
    for i, name in enumerate(used.tolist()):
        call, work, delay = (spread.at(i) for spread in spreads)
        short, long_call, long_delay = (int(mark[i]) for mark in marks)
        text = trace.names[name]
        counted = int(works[i])
        launch_summaries.append(
            LaunchSummary(
                text,
                call_kind(text),
                call.count,
                counted,
                call,
                work,
                delay,
                short,
                long_call,
                long_delay,
            )
        )
    return tuple(sorted(launch_summaries, key=lambda s: (-s.count, s.name)))


def call_kind(name: str) -> CallKind:
    """What a call of the host launches, by its name."""
    return next((kind for kind, pattern in CALLS.items() if pattern.search(name)), "other")


TABLE = RowTable(
    TEXT("call", "kind"),
    INT("count", "work", "short_work", "long_calls", "long_delays", "launches_without_work"),
    INT("work_without_launch"),
    rounded(1, "call_p50_ns", "call_p99_ns"),
    INT("call_max_ns"),
    rounded(1, "delay_p50_ns", "delay_p99_ns"),
    INT("delay_max_ns"),
)


def rows(trace: TraceColumns) -> Rows:
    """One row per launching function, and one of all."""
    stats = launch_stats(trace)
    first = TABLE.row(
        call="all",
        count=len(stats),
        work=stats.work_count.sum(),
        short_work=stats.short_work.sum(),
        long_calls=stats.long_call.sum(),
        long_delays=stats.long_delay.sum(),
        launches_without_work=stats.without_work,
        work_without_launch=stats.work_without_launch,
    )
    table = [first | _times(distribution(stats.call_ns), distribution(stats.delay_ns))]
    for summary in launch_summary(trace):
        row = TABLE.row(
            call=summary.name,
            kind=summary.kind,
            count=summary.count,
            work=summary.works,
            short_work=summary.short_work,
            long_calls=summary.long_call,
            long_delays=summary.long_delay,
        )
        table.append(row | _times(summary.call, summary.delay))
    return table


def _times(call: Distribution, delay: Distribution) -> dict[str, Any]:
    return TABLE.row(
        call_p50_ns=call.p50,
        call_p99_ns=call.p99,
        call_max_ns=call.max,
        delay_p50_ns=delay.p50,
        delay_p99_ns=delay.p99,
        delay_max_ns=delay.max,
    )
