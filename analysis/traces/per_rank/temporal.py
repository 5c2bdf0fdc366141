"""Where the accelerator's time goes: computation, communication, copies, nothing.

Computation hides whatever runs beside it: communication and copies are counted as exposed only
while no computation runs. The breakdown is HTA's `get_temporal_breakdown` and
`get_comm_comp_overlap`, with the non-computing time split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import DeviceWork, Kind, device_streams, device_work
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.columns.intervals import covered, union
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable, rounded
from faultline.analysis.traces.columns.steps import steps_of


@dataclass(frozen=True)
class TemporalBreakdown:
    """Times in ns. idle + computation + exposed communication + exposed memory = window."""

    begin_ns: int
    """Begin of the window: of the first work on the device, or as asked."""
    end_ns: int
    busy_ns: int
    """Anything runs."""
    compute_ns: int
    communication_ns: int
    memory_ns: int
    """Copies and fills."""
    exposed_communication_ns: int
    """Communication while no computation runs."""
    exposed_memory_ns: int
    """Copies and fills while neither computation nor communication runs."""

    @property
    def kernel_ns(self) -> int:
        """Length of the window."""
        return self.end_ns - self.begin_ns

    @property
    def idle_ns(self) -> int:
        """Nothing runs."""
        return self.kernel_ns - self.busy_ns

    @property
    def non_compute_ns(self) -> int:
        """Something runs, but no computation."""
        return self.busy_ns - self.compute_ns

    @property
    def idle_percent(self) -> float:
        """Of the window, as all percentages here; 0 for an empty window."""
        return self.percent(self.idle_ns)

    @property
    def compute_percent(self) -> float:
        """Share of computation."""
        return self.percent(self.compute_ns)

    @property
    def non_compute_percent(self) -> float:
        """Share of exposed communication, copies and fills."""
        return self.percent(self.non_compute_ns)

    @property
    def communication_percent(self) -> float:
        """Share of communication, hidden or not."""
        return self.percent(self.communication_ns)

    @property
    def memory_percent(self) -> float:
        """Share of copies and fills, hidden or not."""
        return self.percent(self.memory_ns)

    @property
    def exposed_communication_percent(self) -> float:
        """Share of communication that nothing hides."""
        return self.percent(self.exposed_communication_ns)

    @property
    def exposed_memory_percent(self) -> float:
        """Share of copies and fills that nothing hides."""
        return self.percent(self.exposed_memory_ns)

    def percent(self, part_ns: int) -> float:
        """A part of the window."""
        return 100.0 * part_ns / self.kernel_ns if self.kernel_ns else 0.0


@dataclass(frozen=True)
class CommunicationOverlap:
    """How much of the communication is hidden behind computation; times in ns."""

    communication_ns: int
    compute_ns: int
    overlapped_ns: int

    @property
    def exposed_ns(self) -> int:
        """Communication while no computation runs."""
        return self.communication_ns - self.overlapped_ns

    @property
    def percent(self) -> float | None:
        """Of the communication; None where there is none."""
        return 100.0 * self.overlapped_ns / self.communication_ns if self.communication_ns else None


def temporal_breakdown(
    trace: TraceColumns, begin: int | None = None, end: int | None = None
) -> TemporalBreakdown:
    """The breakdown from the first work on the device to the end of the last, or of the window
    [begin, end)."""
    work = device_work(trace)
    windows = None if begin is None or end is None else [(begin, end)]
    return breakdowns(work, windows)[0]


def communication_overlap(
    trace: TraceColumns, begin: int | None = None, end: int | None = None
) -> CommunicationOverlap:
    """How much communication has computation beside it, in all or in the window [begin, end)."""
    breakdown = temporal_breakdown(trace, begin, end)
    hidden = breakdown.communication_ns - breakdown.exposed_communication_ns
    return CommunicationOverlap(breakdown.communication_ns, breakdown.compute_ns, hidden)


def breakdowns(
    work: DeviceWork, windows: Sequence[tuple[int, int]] | None = None
) -> list[TemporalBreakdown]:
    """One breakdown per window; None: one, of all the work. O((work + windows) log work)."""
    everything = union(work.start, work.end)
    if windows is None:
        whole = (
            (int(work.start[0]), max(int(work.end.max()), int(work.start[-1])))
            if len(work)
            else (0, 0)
        )
        windows = [whole]
    # reshape: without any window the array would have one dimension.
    marks = np.asarray(windows, dtype=np.int64).reshape(-1, 2)
    # A window that ends before it begins is empty.
    marks[:, 1] = np.maximum(marks[:, 0], marks[:, 1])
    compute, communication = union(*work.of(Kind.COMPUTATION)), union(*work.of(Kind.COMMUNICATION))
    spans = {
        "busy_ns": everything,
        "compute_ns": compute,
        "communication_ns": communication,
        "memory_ns": union(*work.of(Kind.MEMORY)),
        "not_copies": union(
            *(np.concatenate(pair) for pair in zip(compute, communication, strict=True))
        ),
    }
    parts = {name: covered(span, marks[:, 0], marks[:, 1]) for name, span in spans.items()}
    both = parts.pop("not_copies")
    # What communication adds to the time of computation is exposed. The same holds for copies.
    parts["exposed_communication_ns"] = both - parts["compute_ns"]
    parts["exposed_memory_ns"] = parts["busy_ns"] - both
    return [
        TemporalBreakdown(
            int(begin), int(end), **{name: int(values[i]) for name, values in parts.items()}
        )
        for i, (begin, end) in enumerate(marks)
    ]


def step_breakdowns(trace: TraceColumns) -> list[tuple[int, TemporalBreakdown]]:
    """(number of the step, breakdown) of the rank's profiler steps, as the host bounds them."""
    steps = steps_of(trace)
    windows = list(zip(steps.start.tolist(), steps.end.tolist(), strict=True))
    return list(zip(steps.number.tolist(), breakdowns(device_work(trace), windows), strict=True))


BREAKDOWN = RowTable(
    INT("begin_ns", "kernel_ns", "idle_ns", "compute_ns", "communication_ns", "memory_ns"),
    INT("exposed_communication_ns", "exposed_memory_ns"),
    rounded(2, "idle_percent", "compute_percent", "non_compute_percent"),
    rounded(2, "communication_percent", "memory_percent", "exposed_communication_percent"),
    rounded(2, "exposed_memory_percent"),
)
TABLE = RowTable(TEXT("part"), BREAKDOWN.columns)


def rows(trace: TraceColumns) -> Rows:
    """The rank as a whole, then each accelerator where it has several, then each step."""
    work = device_work(trace)
    part_breakdowns = [("all", breakdowns(work)[0])]
    index, streams = device_streams(trace)
    devices = sorted({stream.device for stream in streams})
    # A single device is the whole, which has its row already.
    for device in devices if len(devices) > 1 else []:
        mine = np.asarray([stream.device == device for stream in streams])[index]
        part_breakdowns.append((f"device {device}", breakdowns(work.only(mine))[0]))
    part_breakdowns += [(f"step {number}", step) for number, step in step_breakdowns(trace)]
    parts = BREAKDOWN.rows(breakdown for _, breakdown in part_breakdowns)
    return [{"part": part, **row} for (part, _), row in zip(part_breakdowns, parts, strict=True)]
