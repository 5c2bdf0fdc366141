"""Memory of the accelerator: calls to the driver's allocator in steady steps, growth over steps,
room to the limit.

Growth is read from the allocator's events (`[memory]`, recorded with profile_memory=True): the
lowest total of each step, so that what a step needs for itself does not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import on_runtime
from faultline.analysis.traces.columns.events import Int64, TraceColumns
from faultline.analysis.traces.columns.row_table import INT, Rows, RowTable
from faultline.analysis.traces.doctor.diagnosis import EventReference
from faultline.analysis.traces.judgement.thresholds import MemoryRise, rise_of
from faultline.analysis.traces.per_rank.step_times import StepWindow, longest, window_of

DRIVER_CALL = re.compile(
    r"^(?:cuda|hip)(?:Malloc|Free)(?:Async|Managed)?$|^cuMem(?:Create|Release|Map|Unmap|Alloc|Free)"
)
WARM_UP_STEPS = 1
"""The first recorded step may still fill the allocator's cache."""
MAX_STEPS = 512
CPU = 0


@dataclass(frozen=True)
class MemoryGrowth:
    """Allocated memory of one device over the steps."""

    device_type: int
    device: int
    rise: MemoryRise


@dataclass(frozen=True)
class Allocations:
    """Memory in the window's steps."""

    driver_calls: int
    """In steps after the first."""
    driver_steps: int
    """Steps after the first in which there was one."""
    driver_ns: int
    longest: tuple[EventReference, ...]
    growth: MemoryGrowth | None
    """Of the device that grew most; None without allocator events in two steps."""
    peak_allocated: int
    """Bytes; 0 where unknown."""
    peak_reserved: int
    lowest_reserved: int
    """Equal to the peak where the allocator neither asked for memory nor gave any back."""
    reserved_while_allocated: int
    """Allocated when the reserved total peaked."""
    device_memory: int
    """Bytes of the accelerator; 0 where unknown."""


def allocations(trace: TraceColumns, window: StepWindow | None = None) -> Allocations:
    """The rank's memory. Thresholds over it: TraceML and TensorBoard's plugin."""
    window = window or window_of(trace)
    calls = trace.rows_named(lambda name: DRIVER_CALL.match(name) is not None)
    calls = calls[on_runtime(trace)[calls]]
    steady = window.steps.start[WARM_UP_STEPS:]
    calls = (
        calls[(trace.ts[calls] >= steady[0]) & window.holds(trace)[calls]]
        if len(steady)
        else calls[:0]
    )
    in_step = window.steps.of(trace.ts[calls])
    peaks = _peaks(trace)
    return Allocations(
        driver_calls=len(calls),
        driver_steps=len(np.unique(in_step[in_step >= 0])),
        driver_ns=int(trace.dur[calls].sum()),
        longest=longest(trace, calls, window.steps),
        growth=_growth(trace, window),
        peak_allocated=peaks[0],
        peak_reserved=peaks[1],
        lowest_reserved=peaks[3],
        reserved_while_allocated=peaks[2],
        device_memory=device_memory(trace),
    )


def device_memory(trace: TraceColumns) -> int:
    """Bytes of the largest accelerator in the header; 0 where unknown."""
    devices = trace.header.get("deviceProperties")
    sizes = (
        [d.get("totalGlobalMem") for d in devices if isinstance(d, dict)]
        if isinstance(devices, list)
        else []
    )
    return max((s for s in sizes if isinstance(s, int) and 0 < s < 2**50), default=0)


def _peaks(trace: TraceColumns) -> tuple[int, int, int, int]:
    memory = trace.memory
    device = memory.device_type != CPU
    allocated, reserved = memory.allocated[device], memory.reserved[device]
    if not len(allocated):
        return 0, 0, 0, 0
    top = int(reserved.argmax())
    sizes = (allocated.max(), reserved[top], allocated[top], reserved.min())
    # -1 stands for unknown.
    most, most_reserved, meanwhile, least = (max(int(size), 0) for size in sizes)
    return most, most_reserved, meanwhile, least


def step_floors(
    trace: TraceColumns, window: StepWindow, device_type: int, device: int
) -> tuple[Int64, Int64]:
    """Numbers of the steps with allocator events of a device, and the lowest allocated total in
    each, bytes."""
    memory = trace.memory
    indexes = np.flatnonzero((memory.device_type == device_type) & (memory.device == device))
    indexes = indexes[np.argsort(memory.ts[indexes], kind="stable")]
    level = memory.allocated[indexes]
    # Where there are no totals (2021 traces, or 0 throughout on the CPU) add up the events.
    if not (level >= 0).any() or (device_type == CPU and not (level > 0).any()):
        # Clip hostile sizes: their sum must not overflow.
        level = np.cumsum(np.clip(memory.bytes[indexes], -(2**48), 2**48))
    step = window.steps.of(memory.ts[indexes])
    numbers, place = np.unique(step, return_inverse=True)
    floor = np.full(len(numbers), np.iinfo(np.int64).max)
    np.minimum.at(floor, place, level)
    inside = numbers >= 0
    return numbers[inside][:MAX_STEPS], floor[inside][:MAX_STEPS]


def _growth(trace: TraceColumns, window: StepWindow) -> MemoryGrowth | None:
    memory = trace.memory
    devices = (
        set(zip(memory.device_type.tolist(), memory.device.tolist(), strict=True))
        if len(memory)
        else set()
    )
    memory_growths = []
    for device_type, device in sorted(devices)[:64]:
        _, floor = step_floors(trace, window, device_type, device)
        rise = rise_of(floor)
        if rise is not None:
            memory_growths.append(MemoryGrowth(device_type, device, rise))
    return max(memory_growths, key=lambda g: (g.rise.slope_bytes, g.rise.grown_bytes), default=None)


TABLE = RowTable(INT("device_type", "device", "step", "lowest_bytes"))


def rows(trace: TraceColumns) -> Rows:
    """Lowest allocated total of each step and device, as JSON rows."""
    window = window_of(trace)
    memory = trace.memory
    devices: set[tuple[int, int]] = set()
    if len(memory):
        devices = set(zip(memory.device_type.tolist(), memory.device.tolist(), strict=True))
    table: Rows = []
    for device in sorted(devices)[:64]:
        numbers, floors = step_floors(trace, window, *device)
        pairs = zip(numbers.tolist(), floors.tolist(), strict=True)
        table += TABLE.of((*device, number, floor) for number, floor in pairs)
    return table
