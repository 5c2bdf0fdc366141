"""One rank's trace in a few kilobytes: all that the comparison of ranks and the rules need of it.

A job of thousands of ranks is read rank by rank, each by its own worker; what a worker hands on is
a `RankSummary`. Its size does not grow with the trace: long lists are capped and say how much was
cut. As JSON, columns of whole numbers stand as a first value and differences.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_origin

import msgspec
import numpy as np

from faultline.analysis.traces.columns.device import Kind
from faultline.analysis.traces.columns.events import PROFILER, Int64, RankSource, TraceColumns
from faultline.analysis.traces.columns.intervals import (
    Spans,
    coarsened,
    intersection,
    length,
)
from faultline.analysis.traces.columns.steps import StepColumns, steps_of, steps_on_device
from faultline.analysis.traces.per_rank.activity import Activity, activity_of
from faultline.analysis.traces.per_rank.collective_calls import (
    CollectiveCalls,
    ProcessGroup,
    collective_calls,
)
from faultline.analysis.traces.per_rank.kernel_speed import KernelSpeeds, kernel_speeds, no_kernels
from faultline.analysis.traces.per_rank.long_idle import LongIdle, long_idle
from faultline.analysis.traces.per_rank.operation_times import OperationTimes, operation_times
from faultline.analysis.traces.per_rank.rank_facts import RankFacts, rank_facts
from faultline.analysis.traces.per_rank.step_times import COMMUNICATION, StepTimes, step_times

__all__ = [
    "Accelerator",
    "Clock",
    "CollectiveCalls",
    "Hidden",
    "KernelSpeeds",
    "LongIdle",
    "OperationTimes",
    "ProcessGroup",
    "RankSummary",
    "StepTimes",
    "TimeOnDevice",
    "from_json",
    "summarise",
    "to_json",
    "within_job",
]

Vendor = Literal["cuda", "hip", "xpu", "mtia", "tpu", "npu", "hpu", "cpu"]

MAX_HIDDEN = 2048
"""Intervals of hidden communication kept; the smallest gaps are closed until there are no more
(our choice: 20 KB as JSON)."""
MAX_COLLECTIVES_OF_JOB = 1_500_000
"""Collectives kept of all ranks together: they and what is compared of them take .35 GB (measured,
240 bytes each)."""
LEAST_COLLECTIVES = 1_024
"""Of one rank, however many ranks there are (our choice: a few steps)."""
EPOCH_NS = 10**18
"""Times from here on (2001) are since the epoch; smaller ones are since the machine's start, or the
trace's."""
MAX_TEXT = 256
MAX_WORLD = 10**8


@dataclass(frozen=True)
class Accelerator:
    """What the rank computes on."""

    name: str
    """As the driver calls it; "" where the trace does not say, or the rank has none."""
    vendor: Vendor


@dataclass(frozen=True)
class Clock:
    """How the trace's times stand to other traces'."""

    base_ns: int | None
    """`baseTimeNanoseconds`; None where the trace has none."""
    since_epoch: bool


@dataclass(frozen=True)
class TimeOnDevice:
    """ns of the accelerator from its first work to its last; zeros on a rank without one."""

    window: int
    computation: int
    communication: int
    copies: int
    hidden_communication: int
    """Communication while computation ran."""
    idle: int

    @property
    def exposed_communication(self) -> int:
        """Communication that no computation hides."""
        return self.communication - self.hidden_communication


@dataclass(frozen=True, eq=False)
class Hidden:
    """When the rank computed while it communicated: disjoint intervals in order, ns."""

    start: Int64
    end: Int64
    closed_ns: int
    """Length of gaps that were closed to keep this short."""

    @property
    def spans(self) -> Spans:
        """Starts and ends."""
        return self.start, self.end


@dataclass(frozen=True, eq=False)
class RankSummary:
    """One rank, ready to be compared; times are int64 ns on the rank's own clock."""

    file: str
    rank: int
    rank_source: RankSource
    world_size: int | None
    host: str | None
    accelerator: Accelerator
    clock: Clock
    start_ns: int
    end_ns: int
    """From the first event to the end of the last."""
    event_count: int
    device_event_count: int
    dropped: dict[str, int]
    skipped: dict[str, int]
    steps: StepTimes
    operations: OperationTimes
    collectives: CollectiveCalls
    hidden: Hidden
    time_on_device: TimeOnDevice
    idle: LongIdle
    kernels: KernelSpeeds
    """Of computation."""
    facts: RankFacts
    communication_kernels: KernelSpeeds = field(default_factory=no_kernels)
    format: str = PROFILER
    """What kind of file it was read from, for people."""

    @property
    def has_accelerator(self) -> bool:
        """Whether the trace has work on an accelerator."""
        return self.device_event_count > 0

    @property
    def exposed_share(self) -> float | None:
        """Communication that no computation hides, of the time on the device; of the steps, on a
        rank without one. None where there is neither."""
        device = self.time_on_device
        if device.window:
            return device.exposed_communication / device.window
        whole = int((self.steps.end - self.steps.start).sum())
        return float(self.steps.parts[COMMUNICATION].sum()) / whole if whole else None

    @property
    def work_steps(self) -> StepColumns:
        """Numbers, starts and ends of the steps; on a rank with an accelerator, of the work that
        each launched."""
        return StepColumns(self.steps.number, self.steps.start, self.steps.end, self.steps.inferred)


def summarise(trace: TraceColumns) -> RankSummary:
    """One rank's summary. O(events log events)."""
    steps = steps_of(trace)
    activity = activity_of(trace, steps)
    linked = np.flatnonzero(activity.launch >= 0)
    on_device = steps_on_device(steps, trace.ts[activity.launch[linked]], trace.end[linked])
    overlap = intersection(activity.communication, activity.computation)
    (hidden_start, hidden_end), closed = coarsened(overlap, MAX_HIDDEN)
    base, world = trace.header.get("baseTimeNanoseconds"), trace.world_size
    start = int(trace.ts.min()) if len(trace) else 0
    return RankSummary(
        file=trace.file,
        rank=trace.rank,
        rank_source=trace.rank_source,
        # The header comes from the file: an absurd world size or base counts as absent.
        world_size=world if world is not None and 0 < world < MAX_WORLD else None,
        host=trace.host,
        accelerator=accelerator_of(trace),
        clock=Clock(
            base if isinstance(base, int) and 0 <= base < 2**63 else None, start >= EPOCH_NS
        ),
        start_ns=start,
        end_ns=int(trace.end.max()) if len(trace) else 0,
        event_count=len(trace),
        device_event_count=int(trace.on_device.sum()),
        dropped=dict(trace.dropped),
        skipped=dict(trace.skipped),
        steps=step_times(steps, activity, on_device),
        operations=operation_times(trace, steps, activity.kind, on_device),
        collectives=collective_calls(trace, steps, activity),
        hidden=Hidden(hidden_start, hidden_end, closed),
        time_on_device=_time_on_device(activity, length(overlap)),
        idle=long_idle(trace, on_device, activity),
        kernels=kernel_speeds(trace, activity.kind),
        facts=rank_facts(trace),
        communication_kernels=kernel_speeds(trace, activity.kind, Kind.COMMUNICATION),
        format=trace.format,
    )


def within_job(summary: RankSummary, ranks: int) -> RankSummary:
    """The summary as it is kept beside those of `ranks` others: with fewer collectives, where there
    are very many."""
    limit = max(LEAST_COLLECTIVES, MAX_COLLECTIVES_OF_JOB // max(ranks, 1))
    if len(summary.collectives) <= limit:
        return summary
    return replace(summary, collectives=summary.collectives.at_most(limit))


def accelerator_of(trace: TraceColumns) -> Accelerator:
    """What the rank computes on, from the trace's list of devices and the runtime's calls."""
    # The header is hostile: the list may hold anything.
    devices = trace.header.get("deviceProperties")
    first = (
        devices[0] if isinstance(devices, list) and devices and isinstance(devices[0], dict) else {}
    )
    name = str(first.get("name", ""))[:MAX_TEXT]
    if not trace.on_device.any():
        return Accelerator(name, "cpu")
    for vendor, mark in _MARKS.items():
        if mark.search(name) or trace.in_category(*_CATEGORIES.get(vendor, ())).any():
            return Accelerator(name, vendor)
    # ROCm traces reuse CUDA's categories, so only the names of the calls tell them apart.
    hip = any(called.startswith("hip") for called in trace.names)
    return Accelerator(name, "hip" if hip else "cuda")


_MARKS: dict[Vendor, re.Pattern[str]] = {
    "mtia": re.compile(r"artemis|mtia", re.IGNORECASE),
    "tpu": re.compile(r"\btpu\b", re.IGNORECASE),
    "npu": re.compile(r"ascend", re.IGNORECASE),
    "hpu": re.compile(r"gaudi|habana|\bhl-?\d{3}", re.IGNORECASE),
    "xpu": re.compile(r"intel|\bmax 1[15]\d0\b|\barc\b", re.IGNORECASE),
    "hip": re.compile(r"\bamd\b|radeon|instinct", re.IGNORECASE),
    "cuda": re.compile(r"nvidia|tesla|geforce|quadro", re.IGNORECASE),
}
_CATEGORIES: dict[Vendor, tuple[str, ...]] = {
    "mtia": ("mtia_ccp_events", "mtia_runtime"),
    "xpu": ("xpu_runtime", "xpu_driver"),
    "hpu": ("hpu_op",),
}


def to_json(summary: RankSummary) -> bytes:
    """The summary as JSON."""
    return msgspec.json.encode(summary, enc_hook=_encoded)


def from_json(text: bytes) -> RankSummary:
    """A summary that `to_json` wrote. Raises msgspec.ValidationError or msgspec.DecodeError."""
    return msgspec.json.decode(text, type=RankSummary, dec_hook=_decoded)


def _encoded(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        # msgspec expects NotImplementedError for a type that the hook does not know.
        raise NotImplementedError(type(value).__name__)
    # Differences are shorter as text than the numbers themselves.
    return np.diff(value, axis=-1, prepend=0).tolist()


def _decoded(target_type: type, value: Any) -> Any:
    if get_origin(target_type) is not np.ndarray:
        raise NotImplementedError(str(target_type))
    return np.cumsum(np.asarray(value, dtype=np.int64), axis=-1)


def _time_on_device(activity: Activity, hidden: int) -> TimeOnDevice:
    busy = activity.busy
    if not activity.accelerator or not len(busy[0]):
        return TimeOnDevice(0, 0, 0, 0, 0, 0)
    window = int(busy[1][-1] - busy[0][0])
    return TimeOnDevice(
        window=window,
        computation=length(activity.computation),
        communication=length(activity.communication),
        copies=length(activity.copies),
        hidden_communication=hidden,
        idle=window - length(busy),
    )
