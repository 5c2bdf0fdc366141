"""Counter tracks of one rank, to be drawn over its trace: queue length, copy bandwidth, memory,
device busy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.device import launched_by
from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
from faultline.analysis.traces.columns.intervals import union

Float64 = NDArray[np.float64]
DIRECTIONS = ("HtoD", "DtoH", "DtoD", "HtoH", "PtoP")
CUDA = 1
"""The allocator's number for an accelerator; 0 is the host."""


@dataclass(frozen=True)
class CounterTrack:
    """A value over time; it holds from each point to the next."""

    name: str
    process: str
    """The trace's process that it is drawn under."""
    unit: str
    ts: Int64
    """ns since the epoch, ascending, each once."""
    value: Float64

    def __len__(self) -> int:
        return len(self.ts)


def counter_tracks(trace: TraceColumns) -> Iterator[CounterTrack]:
    """All tracks that the trace has data for."""
    yield from queue_lengths(trace)
    yield from copy_bandwidth(trace)
    yield from device_busy(trace)
    yield from allocated_memory(trace)


def queue_lengths(trace: TraceColumns) -> Iterator[CounterTrack]:
    """Per stream: launches whose work has not started. A launch adds one for each of its
    kernels."""
    launch = launched_by(trace)
    work = np.flatnonzero(launch >= 0)
    for process, stream, rows in _by_process_and_stream(trace, work):
        steps = np.repeat(np.asarray([1, -1]), len(rows))
        # Clocks may disagree: count a launch no later than its work.
        times = np.concatenate((np.minimum(trace.ts[launch[rows]], trace.ts[rows]), trace.ts[rows]))
        yield _track(f"Queue length, stream {stream}", process, "launches", times, steps)


def copy_bandwidth(trace: TraceColumns) -> Iterator[CounterTrack]:
    """Per direction: what all running copies move together, GB/s."""
    number = trace.arguments.number("memory bandwidth (GB/s)")
    rows = number.rows.astype(np.int64)
    real = trace.on_device[rows] & (number.values > 0)
    rows, bandwidth = rows[real], number.values[real]
    labels = np.asarray([_direction(name) for name in trace.names], dtype=np.int64)
    process = _process_of_lane(trace)
    keys = (
        (process[trace.lane[rows]] * (len(DIRECTIONS) + 2) + labels[trace.name[rows]])
        if len(rows)
        else rows
    )
    for mine in _groups(keys):
        chosen = rows[mine]
        what = int(labels[trace.name[chosen[0]]])
        name = (
            DIRECTIONS[what]
            if what < len(DIRECTIONS)
            else ("Memset", "other")[what - len(DIRECTIONS)]
        )
        steps = np.concatenate((bandwidth[mine], -bandwidth[mine]))
        times = np.concatenate((trace.ts[chosen], trace.end[chosen]))
        yield _track(f"Memcpy bandwidth, {name}", _process(trace, chosen), "GB/s", times, steps)


def device_busy(trace: TraceColumns) -> Iterator[CounterTrack]:
    """Per device: 1 while any work runs on it, else 0."""
    work = np.flatnonzero(trace.on_device)
    process = _process_of_lane(trace)
    for mine in _groups(process[trace.lane[work]] if len(work) else work):
        rows = work[mine]
        starts, ends = union(trace.ts[rows], trace.end[rows])
        steps = np.repeat(np.asarray([1, -1]), len(starts))
        yield _track(
            "GPU busy", _process(trace, rows), "busy", np.concatenate((starts, ends)), steps
        )


def allocated_memory(trace: TraceColumns) -> Iterator[CounterTrack]:
    """Per device of the allocator: bytes allocated after each of its events."""
    memory = trace.memory
    keys = memory.device_type.astype(np.int64) * (1 << 32) + memory.device
    for mine in _groups(keys):
        order = mine[np.argsort(memory.ts[mine], kind="stable")]
        total = memory.allocated[order]
        # Old traces have no totals: add up the events.
        total = np.where(total >= 0, total, np.cumsum(memory.bytes[order]))
        device = (
            "host"
            if memory.device_type[order[0]] != CUDA
            else f"device {max(int(memory.device[order[0]]), 0)}"
        )
        ts = memory.ts[order]
        last = np.concatenate((ts[1:] != ts[:-1], [True]))
        process = trace.lanes[0][0] if trace.lanes else "0"
        yield CounterTrack(
            f"Allocated memory, {device}",
            process,
            "bytes",
            ts[last],
            total[last].astype(np.float64),
        )


def _track(
    name: str, process: str, unit: str, times: Int64, steps: Int64 | Float64
) -> CounterTrack:
    order = np.argsort(times, kind="stable")
    ts, value = times[order], np.cumsum(steps[order].astype(np.float64))
    # Of several changes at one time only the last level holds.
    last = np.concatenate((ts[1:] != ts[:-1], [True])) if len(ts) else np.zeros(0, dtype=np.bool_)
    return CounterTrack(name, process, unit, ts[last], np.round(np.maximum(value[last], 0), 6))


def _by_process_and_stream(trace: TraceColumns, rows: Int64) -> Iterator[tuple[str, int, Int64]]:
    process = _process_of_lane(trace)
    stream = trace.stream[rows]
    keys = process[trace.lane[rows]] * (1 << 33) + stream + 1 if len(rows) else rows
    for mine in _groups(keys):
        yield _process(trace, rows[mine]), int(stream[mine[0]]), rows[mine]


def _groups(keys: Int64) -> list[Int64]:
    """Places of equal keys, group by group."""
    order = np.argsort(keys, kind="stable")
    changes: Bool = keys[order][1:] != keys[order][:-1]
    return [part for part in np.split(order, np.flatnonzero(changes) + 1) if len(part)]


def _process_of_lane(trace: TraceColumns) -> Int64:
    number_by_pid: dict[str, int] = {}
    return np.asarray(
        [number_by_pid.setdefault(pid, len(number_by_pid)) for pid, _ in trace.lanes],
        dtype=np.int64,
    )


def _process(trace: TraceColumns, rows: Int64) -> str:
    return trace.lanes[int(trace.lane[rows[0]])][0]


def _direction(name: str) -> int:
    for number, direction in enumerate(DIRECTIONS):
        if direction in name:
            return number
    # This matches both "Memset" and "memset".
    return len(DIRECTIONS) + (0 if "emset" in name else 1)
