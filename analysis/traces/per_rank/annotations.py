"""The user's annotations (record_function, NVTX, steps of the profiler): their times, and which
kernels are theirs.

Each kernel belongs to the innermost annotation around it: on the device, where the profiler copied
the annotations to its streams; otherwise around the launch, on the thread that launched it. HTA's
`get_gpu_kernels_with_user_annotations` marks by time alone, so that kernels of the same time on
other streams are marked, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.device import device_launches, device_rows
from faultline.analysis.traces.columns.distribution import Distribution, distribution, distributions
from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
from faultline.analysis.traces.columns.intervals import innermost_at
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable, rounded

Side = Literal["device", "host"]
CATEGORY: dict[Side, tuple[str, ...]] = {
    "device": ("gpu_user_annotation",),
    "host": ("user_annotation",),
}
REST = "others"


@dataclass(frozen=True)
class AnnotationTime:
    """All annotations of one name."""

    name: str
    """`REST` for all that were cut."""
    times: Distribution
    """Lengths, ns."""


@dataclass(frozen=True)
class KernelAnnotations:
    """Work on the device, by start, and the innermost annotation of each."""

    row: Int64
    annotation: Int64
    """Row of the annotation; -1 where there is none."""
    side: Side
    """Where the annotations stand that were used."""


@dataclass(frozen=True)
class AnnotationKernels:
    """The kernels whose innermost annotation has this name."""

    name: str
    """"" for the kernels outside all annotations."""
    times: Distribution
    """Lengths of the kernels, ns."""


def annotation_breakdown(
    trace: TraceColumns,
    side: Side = "device",
    top: int | None = None,
    keep: Sequence[re.Pattern[str]] = (),
) -> tuple[AnnotationTime, ...]:
    """Annotations by name, the longest in all first; () where the trace has none on that side.

    With `top` only this many names are kept, and those that a pattern of `keep` finds; the rest is
    one last `REST`.
    """
    rows = np.flatnonzero(trace.in_category(*CATEGORY[side]))
    used, group = _groups(trace.name[rows])
    lengths = trace.dur[rows]
    spread = distributions(lengths, group, len(used))
    order = np.argsort(-spread.total.astype(np.int64), kind="stable")
    if top is None:
        top = len(order)
    time = []
    cut = []
    for place, index in enumerate(order.tolist()):
        name = trace.names[int(used[index])]
        if place < top or any(pattern.search(name) for pattern in keep):
            time.append(AnnotationTime(name, spread.at(index)))
        else:
            cut.append(index)
    if cut:
        rest = np.isin(group, cut)
        time.append(AnnotationTime(REST, distribution(lengths[rest])))
    return tuple(time)


def kernel_annotations(trace: TraceColumns, side: Side | None = None) -> KernelAnnotations:
    """The innermost annotation of each piece of work on the device. O((annotations + work) log).

    `side` None: the device's annotations where there are any, otherwise the host's around the
    launches.
    """
    rows = device_rows(trace)
    if side is None:
        side = "device" if trace.in_category(*CATEGORY["device"]).any() else "host"
    marks = np.flatnonzero(trace.in_category(*CATEGORY[side]))
    annotation_rows = np.full(len(rows), -1, dtype=np.int64)
    # On the host the annotation surrounds the launch, not the kernel.
    requested_rows = rows if side == "device" else device_launches(trace)
    has_row: Bool = requested_rows >= 0
    place = innermost_at(
        trace.ts[marks],
        trace.end[marks],
        trace.lane[marks],
        trace.ts[requested_rows[has_row]],
        trace.lane[requested_rows[has_row]],
    )
    annotation_rows[has_row] = np.where(place >= 0, marks[place], -1) if len(marks) else -1
    return KernelAnnotations(rows, annotation_rows, side)


def kernels_by_annotation(
    trace: TraceColumns, side: Side | None = None
) -> tuple[AnnotationKernels, ...]:
    """How much work belongs to each annotation, by name; the most first."""
    linked = kernel_annotations(trace, side)
    name = linked.row
    if len(linked.row):
        name = np.where(linked.annotation >= 0, trace.name[linked.annotation], -1)
    # Names are counted from 1 here: 0 is work outside all annotations.
    used, group = _groups(name + 1)
    spread = distributions(trace.dur[linked.row], group, len(used))
    order = np.argsort(-spread.total.astype(np.int64), kind="stable")
    kernels = []
    for index in order.tolist():
        number = int(used[index])
        name_text = trace.names[number - 1] if number else ""
        kernels.append(AnnotationKernels(name_text, spread.at(index)))
    return tuple(kernels)


TABLE = RowTable(
    TEXT("name"),
    INT("kernels", "kernel_ns", "host_count", "host_total_ns"),
    rounded(1, "host_mean_ns"),
    INT("host_max_ns", "device_count", "device_total_ns"),
    rounded(1, "device_mean_ns"),
    INT("device_max_ns"),
)


def rows(trace: TraceColumns) -> Rows:
    """One row per annotation: its own time on the host and on the device, and the kernels that
    belong to it."""
    by_name: dict[str, dict[str, Any]] = {}
    for kernel in kernels_by_annotation(trace):
        by_name[kernel.name] = TABLE.row(
            name=kernel.name, kernels=kernel.times.count, kernel_ns=kernel.times.total
        )
    sides: tuple[Side, ...] = ("device", "host")
    for side in sides:
        for annotation in annotation_breakdown(trace, side):
            # An annotation may launch nothing.
            row = by_name.setdefault(
                annotation.name, {"name": annotation.name, "kernels": 0, "kernel_ns": 0}
            )
            times = annotation.times
            values = {"count": times.count, "total_ns": times.total}
            values |= {"mean_ns": times.mean, "max_ns": times.max}
            row |= TABLE.row(**{f"{side}_{name}": value for name, value in values.items()})
    return [row for row in by_name.values() if row["name"] or row["kernel_ns"]]


def _groups(ids: NDArray[np.integer]) -> tuple[Int64, Int64]:
    """The ids that occur, and for each entry which of them it is."""
    if not len(ids):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    used = np.flatnonzero(np.bincount(ids))
    place = np.zeros(int(used[-1]) + 1, dtype=np.int64)
    place[used] = np.arange(len(used))
    return used, place[ids]
