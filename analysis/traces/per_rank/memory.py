"""Memory of each device over time, from the allocator's events of a trace (`[memory]`,
profile_memory=True).

What stood allocated at the peak and by which operator, what was never freed, and how the level
moves from step to step. Raw timelines that torch exports by category:
analysis/traces/per_rank/memory_categories.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from faultline.analysis.traces.columns.events import Int64, MemoryEvents, TraceColumns
from faultline.analysis.traces.columns.row_table import BOOL, INT, TEXT, Rows, RowTable
from faultline.analysis.traces.columns.steps import StepColumns, steps_of
from faultline.analysis.traces.native.device_work import nesting_parents
from faultline.analysis.traces.per_rank.call_stacks import containing
from faultline.analysis.traces.per_rank.operators import OPERATOR_CATEGORIES

DEVICE_TYPES = {0: "CPU", 1: "GPU", 6: "GPU", 12: "XPU", 13: "MPS", 15: "HPU", 19: "MTIA"}
"""As PyTorch numbers them (c10::DeviceType: 1 CUDA, 6 HIP); others by number."""
MAX_THREADS = 16
"""Most threads whose operators are looked at for an allocation."""
MAX_HOLDERS, MAX_POINTS = 50, 400
"""Most holders listed, most points of one device's line, most rows given as JSON."""


@dataclass(frozen=True)
class Blocks:
    """Allocations of one device, by time; addresses in use before the recording are not among
    them."""

    start: Int64
    """When it was allocated, ns."""
    end: Int64
    """When it was freed; -1 where it was not, until the recording ended."""
    bytes: Int64
    operator: Int64
    """Row of the innermost operator in which it was allocated; -1 for none."""

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class OperatorHolder:
    """Blocks allocated in operators of one name."""

    operator: str
    """"" for blocks allocated in no operator."""
    blocks: int
    bytes: int
    steps: int
    """Number of steps in which they were allocated; 0 without steps."""


@dataclass(frozen=True)
class MemoryTimeline:
    """One device's memory; arrays have one entry per event, by time."""

    device_type: int
    device: int
    ts: Int64
    allocated: Int64
    """Bytes in use after the event; where the trace has no totals (2021), above the lowest level
    seen."""
    reserved: Int64
    """Bytes the allocator holds after the event; -1 where unknown."""
    has_totals: bool
    has_addresses: bool
    """Without addresses (2021) frees cannot be matched to allocations, and there are no blocks."""
    blocks: Blocks
    step_number: Int64
    step_floor: Int64
    """Lowest level in each step that has events, bytes."""
    step_peak: Int64

    @property
    def name(self) -> str:
        """ "GPU 0", "CPU"."""
        kind = DEVICE_TYPES.get(self.device_type, f"device type {self.device_type}")
        return f"{kind} {self.device}" if self.device >= 0 else kind

    @property
    def peak(self) -> int:
        """Place of the highest level, the first where there are several."""
        return int(np.argmax(self.allocated))

    @property
    def slope_bytes(self) -> int | None:
        """Median change of the lowest level from step to step; None with fewer than two steps."""
        return int(np.median(np.diff(self.step_floor))) if len(self.step_floor) > 1 else None


def memory_timelines(trace: TraceColumns) -> list[MemoryTimeline]:
    """One timeline per device that has events; the device with the highest peak first. O(n log
    n)."""
    events, steps = trace.memory, steps_of(trace)
    if not len(events):
        return []
    key = events.device_type.astype(np.int64) * (1 << 32) + events.device
    operators = _operators(trace)
    timelines = [
        _timeline(trace, _picked(events, np.flatnonzero(key == k)), steps, operators)
        for k in np.unique(key)
    ]
    return sorted(timelines, key=lambda t: -int(t.allocated[t.peak]))


def holders_at_peak(trace: TraceColumns, timeline: MemoryTimeline) -> list[OperatorHolder]:
    """Who had allocated what stood at the peak, by operator, most bytes first. What was there
    before the recording has no holder."""
    blocks, at = timeline.blocks, int(timeline.ts[timeline.peak])
    # An end of -1 means never freed.
    alive = (blocks.start <= at) & ((blocks.end < 0) | (blocks.end > at))
    return _holders(trace, blocks, np.flatnonzero(alive))


def never_freed(trace: TraceColumns, timeline: MemoryTimeline) -> list[OperatorHolder]:
    """Blocks allocated during the recording and not freed until its end, by operator. Those of
    several steps may leak; those of the last step may be freed after the recording."""
    return _holders(trace, timeline.blocks, np.flatnonzero(timeline.blocks.end < 0))


def thinned(timeline: MemoryTimeline, points: int = MAX_POINTS) -> Int64:
    """Places of at most this many points that keep the line's look: the highest of each equal part
    of the time."""
    if len(timeline.ts) <= points:
        return np.arange(len(timeline.ts), dtype=np.int64)
    begin, end = int(timeline.ts[0]), int(timeline.ts[-1])
    part = ((timeline.ts - begin) / max(end - begin, 1) * (points - 1)).astype(np.int64)
    by_level = np.lexsort((timeline.allocated, part))
    last = np.concatenate((part[by_level][1:] != part[by_level][:-1], [True]))
    return np.sort(by_level[last]).astype(np.int64)


TABLE = RowTable(
    TEXT("kind", "device"),
    BOOL("has_totals", "has_addresses"),
    INT("peak_ns", "peak_allocated_bytes", "reserved_at_peak_bytes", "peak_reserved_bytes"),
    INT("allocations", "never_freed_bytes", "slope_bytes_per_step"),
    TEXT("operator"),
    INT("blocks", "bytes", "steps", "ts_ns", "allocated_bytes", "reserved_bytes"),
)


def rows(trace: TraceColumns) -> Rows:
    """Peaks, holders, what was not freed, and points of the lines, as JSON values; each row says
    which `kind` it is."""
    timelines = memory_timelines(trace)
    summaries = [_summary(trace, timeline) for timeline in timelines]
    for timeline in timelines:
        for kind, holders in (
            ("at_peak", holders_at_peak(trace, timeline)),
            ("never_freed", never_freed(trace, timeline)),
        ):
            for h in holders[:MAX_HOLDERS]:
                row = TABLE.row(operator=h.operator, blocks=h.blocks, bytes=h.bytes, steps=h.steps)
                summaries.append({"kind": kind, "device": timeline.name} | row)
    for timeline in timelines:
        for i in thinned(timeline).tolist():
            point = TABLE.row(
                kind="point",
                device=timeline.name,
                ts_ns=timeline.ts[i],
                allocated_bytes=timeline.allocated[i],
                reserved_bytes=_size_or_none(timeline.reserved[i]),
            )
            summaries.append(point)
    return summaries


def _summary(trace: TraceColumns, timeline: MemoryTimeline) -> dict[str, Any]:
    peak, lost = timeline.peak, never_freed(trace, timeline)
    return TABLE.row(
        kind="device",
        device=timeline.name,
        has_totals=timeline.has_totals,
        has_addresses=timeline.has_addresses,
        peak_ns=timeline.ts[peak],
        peak_allocated_bytes=timeline.allocated[peak],
        reserved_at_peak_bytes=_size_or_none(timeline.reserved[peak]),
        peak_reserved_bytes=_size_or_none(timeline.reserved.max()),
        allocations=len(timeline.blocks),
        never_freed_bytes=sum(h.bytes for h in lost) if timeline.has_addresses else None,
        slope_bytes_per_step=timeline.slope_bytes,
    )


def _size_or_none(size: np.int64) -> int | None:
    """None for what the trace does not say."""
    return int(size) if size >= 0 else None


def _picked(events: MemoryEvents, rows: Int64) -> MemoryEvents:
    """The rows by time; those of one moment in their order."""
    rows = rows[np.argsort(events.ts[rows], kind="stable")]
    columns = ("ts", "address", "bytes", "allocated", "reserved", "device_type", "device")
    picked: dict[str, Any] = {c: getattr(events, c)[rows] for c in columns}
    return replace(events, **picked)


def _timeline(
    trace: TraceColumns,
    events: MemoryEvents,
    steps: StepColumns,
    operators: list[tuple[Int64, Int64]],
) -> MemoryTimeline:
    has_totals, has_addresses = (
        bool((events.allocated >= 0).any()),
        bool((events.address != 0).any()),
    )
    # Old traces record sizes without totals.
    level = events.allocated if has_totals else np.cumsum(events.bytes)
    # Without totals the level is relative: lift it so that its lowest point is 0.
    level = np.maximum(level, 0) if has_totals else level - min(int(level.min()), 0)
    place = steps.position_of(events.ts)
    inside = np.flatnonzero(place >= 0)
    present, first = np.unique(place[inside], return_index=True)
    # reduceat needs the events of a step side by side.
    ordered = bool((np.diff(place[inside]) >= 0).all())
    floor = (
        np.minimum.reduceat(level[inside], first)
        if len(first) and ordered
        else np.empty(0, dtype=np.int64)
    )
    peak = (
        np.maximum.reduceat(level[inside], first)
        if len(first) and ordered
        else np.empty(0, dtype=np.int64)
    )
    return MemoryTimeline(
        int(events.device_type[0]),
        int(events.device[0]),
        events.ts,
        level,
        events.reserved,
        has_totals,
        has_addresses,
        _blocks(trace, events, operators)
        if has_addresses
        else Blocks(*np.empty((4, 0), dtype=np.int64)),
        steps.number[present] if ordered else np.empty(0, dtype=np.int64),
        floor,
        peak,
    )


def _blocks(
    trace: TraceColumns, events: MemoryEvents, operators: list[tuple[Int64, Int64]]
) -> Blocks:
    """An allocation ends with the next event at its address."""
    by_address = np.argsort(events.address, kind="stable")
    same = np.concatenate(
        (events.address[by_address][1:] == events.address[by_address][:-1], [False])
    )
    end = np.full(len(events), -1, dtype=np.int64)
    followed = np.flatnonzero(same)
    end[by_address[followed]] = events.ts[by_address[followed + 1]]
    made = np.flatnonzero(events.bytes > 0)
    start = events.ts[made]
    return Blocks(start, end[made], events.bytes[made], _operator_at(trace, operators, start))


def _operators(trace: TraceColumns) -> list[tuple[Int64, Int64]]:
    """By thread: rows of its operators by start, and the place of the operator around each. Busiest
    threads first."""
    rows = np.flatnonzero(trace.in_category(*OPERATOR_CATEGORIES) & ~trace.on_device)
    if not len(rows):
        return []
    lanes, counts = np.unique(trace.lane[rows], return_counts=True)
    busiest = lanes[np.argsort(-counts, kind="stable")][:MAX_THREADS]
    operators = []
    for lane in busiest.tolist():
        mine = rows[trace.lane[rows] == lane]
        # Outer operators first, as nesting_parents requires.
        mine = mine[np.lexsort((-trace.dur[mine], trace.ts[mine]))]
        above, _ = nesting_parents(trace.lane[mine], trace.ts[mine], trace.end[mine])
        operators.append((mine, above))
    return operators


def _operator_at(trace: TraceColumns, operators: list[tuple[Int64, Int64]], times: Int64) -> Int64:
    """Row of the operator that began last and is open at each moment; the events do not say their
    thread."""
    operator = np.full(len(times), -1, dtype=np.int64)
    since = np.full(len(times), np.iinfo(np.int64).min)
    for mine, above in operators:
        first = (np.searchsorted(trace.ts[mine], times, side="right") - 1).astype(np.int32)
        place = containing(above.astype(np.int32), trace.end[mine], first, times)
        row = np.where(place >= 0, mine[place], -1)
        start = np.where(row >= 0, trace.ts[row], np.iinfo(np.int64).min)
        operator, since = np.where(start > since, row, operator), np.maximum(start, since)
    return operator


def _holders(trace: TraceColumns, blocks: Blocks, places: Int64) -> list[OperatorHolder]:
    operator = blocks.operator[places]
    name = np.where(operator >= 0, trace.name[operator], -1) if len(trace) else operator
    names, group = np.unique(name, return_inverse=True)
    size = np.zeros(len(names), dtype=np.int64)
    np.add.at(size, group, blocks.bytes[places])
    step = steps_of(trace).of(blocks.start[places])
    # Count each step once per holder.
    pairs = np.unique(np.stack((group[step >= 0], step[step >= 0])), axis=1)
    steps = np.bincount(pairs[0], minlength=len(names))
    counts = np.bincount(group, minlength=len(names))
    table = [
        OperatorHolder(
            trace.names[n] if n >= 0 else "", int(counts[i]), int(size[i]), int(steps[i])
        )
        for i, n in enumerate(names.tolist())
    ]
    return sorted(table, key=lambda h: (-h.bytes, h.operator))
