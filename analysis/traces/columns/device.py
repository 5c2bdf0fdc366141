"""Work on the accelerator: what kind each kernel is, and which call on the host launched it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.events import (
    DEVICE_CATEGORIES,
    Bool,
    Int32,
    Int64,
    TraceColumns,
)
from faultline.analysis.traces.columns.row_table import cached_per_trace
from faultline.analysis.traces.native.device_work import (
    CALL,
    WORK,
    DeviceScan,
    linked_calls,
    of_lane,
    order_by_key,
    scan_device,
    streams_of_lanes,
)

DENSE_PER_ROW, DENSE_LEAST = 4, 1 << 20
"""A dense table of correlations may have this many entries per row (4 bytes each); a wider range is
matched by sort."""

FEW = 6
NAME_CACHE_SIZE = 8192
"""Names whose kind is remembered: the ranks of a job run the same kernels."""


class Kind(IntEnum):
    """What an event on a stream does. OTHER is no work on a stream."""

    OTHER = 0
    COMPUTATION = 1
    COMMUNICATION = 2
    MEMORY = 3


COMMUNICATION_KERNEL = re.compile(
    r"nccl|rccl|mscclpp|mscclkernel|^msccl|hccl|oneccl|\bccl::|"
    r"deep_?ep::|nvshmem|rocshmem|internode::|intranode::|"
    r"cross_device_reduce|custom_all_?reduce|(one|two|multi)_?shot_(all_?reduce|reduce_scatter"
    r"|all_gather)|"
    r"multimem_(all_?reduce|reduce_scatter|all_gather)|quick_?reduce|^ucc_|allreduce_fusion_kernel|"
    r"vllm::.*all_?reduce|trtllm_allreduce|sglang.*all_?reduce|collective_subgraph_execution|"
    r"^(?:ragged-)?all-(?:reduce|gather|to-all)|^reduce-scatter|^collective-(?:permute|broadcast)|"
    r"^(?:send|recv)(?:-done)?(?:\.\d+)?$|"
    r"^hcom_|symm_?mem|mori::|moe_?a2a|all_?to_?all\w*kernel|\buccl",
    re.IGNORECASE,
)
"""Kernels that move data between ranks: NCCL (`ncclKernel*` up to 2.18, `ncclDevKernel*` since),
RCCL, MSCCL(++), oneCCL, HCCL (Gaudi, MTIA; Ascend's `hcom_allReduce__428_0_1`), DeepEP, MORI,
NVSHMEM, ROCSHMEM, PyTorch's symmetric memory, vLLM's, SGLang's and TensorRT-LLM's custom all-reduce
and all-to-all, and XLA's operations (`HloOpcode`). HTA knows only the first, and only where the
name begins with it."""

_MEMORY_NAME = re.compile(r"^(hip)?(Memcpy|Memset)\b|^(hip)?(Memcpy|Memset)|^dma", re.IGNORECASE)
_MEMORY_CATEGORIES = ("gpu_memcpy", "gpu_memset", "memcpy", "memset")


@cached_per_trace
def kinds(trace: TraceColumns) -> Int32:
    """`Kind` of every row; OTHER for everything that is not work on an accelerator's stream."""
    row_kinds = np.zeros(len(trace), dtype=np.int32)
    rows = np.flatnonzero(trace.on_device)
    row_kinds[rows] = _kinds_at(trace, rows)
    return row_kinds


def _kinds_at(trace: TraceColumns, rows: Int64) -> Int32:
    """Names are judged once each, and only those that the rows have."""
    names = trace.name[rows]
    used = (
        np.flatnonzero(np.bincount(names, minlength=1))
        if len(rows)
        else np.empty(0, dtype=np.int64)
    )
    by_name = np.zeros(len(trace.names) + 1, dtype=np.int32)
    by_name[used] = [kind_of_name(trace.names[i]) for i in used.tolist()]
    memory = [category.lower() in _MEMORY_CATEGORIES for category in trace.categories]
    by_category = np.asarray([*memory, False], dtype=np.bool_)
    return np.asarray(
        np.where(by_category[trace.category[rows]], Kind.MEMORY, by_name[names]), dtype=np.int32
    )


def is_communication_kernel(name: str) -> bool:
    """Whether a kernel's name says that it moves data between ranks."""
    return COMMUNICATION_KERNEL.search(name) is not None


@lru_cache(maxsize=NAME_CACHE_SIZE)
def kind_of_name(name: str) -> Kind:
    """The kind of work that a name on a stream stands for."""
    if _MEMORY_NAME.search(name):
        return Kind.MEMORY
    return Kind.COMMUNICATION if is_communication_kernel(name) else Kind.COMPUTATION


RUNTIME_CATEGORIES = (
    "cuda_runtime",
    "cuda_driver",
    "runtime",
    "driver",
    "xpu_runtime",
    "xpu_driver",
    "mtia_runtime",
    "privateuse1_runtime",
    "privateuse1_driver",
)
"""Calls of the host into the accelerator's runtime or driver, as Kineto's `ActivityType` names
them; ROCm's hip* calls are in cuda_runtime, those of Gaudi and other plugins in privateuse1."""


def on_runtime(trace: TraceColumns) -> Bool:
    """Mask of the host's calls into the runtime or driver."""
    return _in_category(trace, RUNTIME_CATEGORIES)


@cached_per_trace
def launched_by(trace: TraceColumns) -> Int64:
    """For every row on the device, the row of the call that launched it, by correlation; -1 where
    there is none.

    A graph launch has many kernels, each of which points to it. Where several calls share a
    correlation the last in file order wins. O(rows).
    """
    launch_rows = np.full(len(trace), -1, dtype=np.int64)
    launch_rows[device_rows(trace)] = device_launches(trace)
    return launch_rows


def launches_of(trace: TraceColumns, rows: Int64) -> Int64:
    """The same for some rows on the device."""
    scan = _scan(trace)
    if scan is not None and scan.highest - scan.lowest < _most_dense(trace):
        linked = linked_calls(
            trace.category, _kinds(trace), trace.correlation, rows, scan.lowest, scan.highest
        )
        if linked is not None:
            return linked
    correlations, give = trace.correlation.take(rows), np.flatnonzero(on_runtime(trace))
    keys = trace.correlation.take(give)
    # A correlation below 1 links nothing.
    if len(keys) and keys.min() < 1:
        give = give[keys > 0]
        keys = trace.correlation.take(give)
    if not len(give) or not len(rows):
        return np.full(len(rows), -1, dtype=np.int64)
    low, top = int(keys.min()), int(keys.max())
    if top - low < _most_dense(trace):
        keys -= low
        correlations -= low
        table = np.full(top - low + 2, -1, dtype=np.int32)
        table[keys] = give
        # Read as unsigned, negative differences are huge: one comparison catches both sides.
        correlations[correlations.view(np.uint64) > top - low] = top - low + 1
        return table.take(correlations).astype(np.int64)
    # A dense table would be too large. Of equal correlations the last in file order wins.
    order = np.argsort(keys, kind="stable")
    place = np.searchsorted(keys[order], correlations, side="right") - 1
    hit = (place >= 0) & (keys[order][place] == correlations)
    return np.asarray(np.where(hit, give[order][place], -1), dtype=np.int64)


def device_rows(trace: TraceColumns) -> Int64:
    """Rows of the work on the accelerator's streams, by start. Kept with the trace; read-only."""

    def scan_rows() -> Int64:
        scan = _scan(trace)
        if scan is not None and scan.in_order:
            # Copy: the cache freezes its array, and this one belongs to the scan.
            return scan.rows.copy()
        if scan is not None:
            return scan.rows.take(np.argsort(trace.ts.take(scan.rows), kind="stable"))
        rows = np.flatnonzero(_in_category(trace, DEVICE_CATEGORIES))
        return rows.take(np.argsort(trace.ts.take(rows), kind="stable"))

    return _once(trace, "_device_rows", scan_rows)


def device_launches(trace: TraceColumns) -> Int64:
    """For each of `device_rows` the row of the call that launched it, or -1. Kept with the trace;
    read-only."""
    return _once(trace, "_device_launches", lambda: launches_of(trace, device_rows(trace)))


def _once(trace: TraceColumns, name: str, make: Callable[[], Int64]) -> Int64:
    """Made once per trace, as its cached properties are: several analyses need it."""
    cache = vars(trace)
    if name not in cache:
        cache[name] = make()
        cache[name].setflags(write=False)
    return np.asarray(cache[name])


def _most_dense(trace: TraceColumns) -> int:
    return max(DENSE_PER_ROW * len(trace), DENSE_LEAST)


def _kinds(trace: TraceColumns) -> NDArray[np.uint8]:
    """What each category is to `scan_device`."""
    lower = [category.lower() for category in trace.categories]
    kinds = [
        WORK if c in DEVICE_CATEGORIES else CALL if c in RUNTIME_CATEGORIES else 0 for c in lower
    ]
    return np.asarray(kinds, dtype=np.uint8)


def _scan(trace: TraceColumns) -> DeviceScan | None:
    devices = vars(trace)
    if "_device_scan" not in devices:
        devices["_device_scan"] = scan_device(
            trace.category, _kinds(trace), trace.ts, trace.correlation
        )
    device_scan: DeviceScan | None = devices["_device_scan"]
    return device_scan


def _in_category(trace: TraceColumns, categories: tuple[str, ...]) -> Bool:
    """A few comparisons are quicker than a look-up per row."""
    ids = [i for i, category in enumerate(trace.categories) if category.lower() in categories]
    if len(ids) > FEW:
        return trace.in_category(*categories)
    mask = np.zeros(len(trace), dtype=np.bool_)
    for number in ids:
        mask |= trace.category == number
    return mask


@dataclass(frozen=True)
class DeviceWork:
    """The work on an accelerator's streams, by start: one entry per kernel, copy and fill."""

    row: Int64
    """Row of the trace."""
    start: Int64
    end: Int64
    kind: Int32
    """`Kind`; never OTHER."""

    def __len__(self) -> int:
        return len(self.row)

    def only(self, keep: Bool) -> DeviceWork:
        """The entries of the mask."""
        return DeviceWork(self.row[keep], self.start[keep], self.end[keep], self.kind[keep])

    def of(self, *work_kinds: Kind) -> tuple[Int64, Int64]:
        """Starts and ends of these kinds."""
        keep = np.isin(self.kind, work_kinds) if len(work_kinds) > 1 else self.kind == work_kinds[0]
        return self.start[keep], self.end[keep]


def device_work(trace: TraceColumns) -> DeviceWork:
    """Everything that ran on the rank's accelerators."""
    rows = device_rows(trace)
    start = trace.ts[rows]
    return DeviceWork(rows, start, start + trace.dur[rows], _kinds_at(trace, rows))


@dataclass(frozen=True)
class DeviceStream:
    """A queue of work on one accelerator."""

    device: str
    """The process id that the trace gives the accelerator: with most profilers its index."""
    stream: int


def streams_of(trace: TraceColumns, rows: Int64) -> tuple[Int64, tuple[DeviceStream, ...]]:
    """Which stream each row ran on: index into the streams, which are in order of device and
    number.

    A stream is distinguished by its device, too: one process with two GPUs has a stream 7 on both.
    """
    if not len(rows):
        return np.empty(0, dtype=np.int64), ()
    streams = streams_of_lanes(rows, trace.lane, trace.stream, len(trace.lanes))
    if streams is not None:
        used, a_number = np.flatnonzero(streams[0]), streams[1]
        return _indexed(
            [DeviceStream(trace.lanes[i][0], int(a_number[i])) for i in used.tolist()],
            used, len(trace.lanes), lambda table: of_lane(rows, trace.lane, table),
        )  # fmt: skip
    lane, number = trace.lane.take(rows), trace.stream.take(rows)
    a_number = np.zeros(len(trace.lanes), dtype=np.int64)
    # Mostly a lane is one stream; then the lane's number serves as the key.
    a_number[lane] = number
    if (a_number.take(lane) == number).all():
        group, used = lane, np.flatnonzero(np.bincount(lane))
        lane_streams = [DeviceStream(trace.lanes[i][0], int(a_number[i])) for i in used.tolist()]
    else:
        numbers, of_row = np.unique(number, return_inverse=True)
        used, group = np.unique(lane * np.int64(len(numbers)) + of_row, return_inverse=True)
        keys = [divmod(key, len(numbers)) for key in used.tolist()]
        lane_streams = [DeviceStream(trace.lanes[i][0], int(numbers[j])) for i, j in keys]
        used = np.arange(len(used))
    return _indexed(lane_streams, used, int(used[-1]) + 1, lambda table: table.take(group))


def _indexed(
    lane_streams: Sequence[DeviceStream], used: Int64, size: int, look_up: Callable[[Int64], Int64]
) -> tuple[Int64, tuple[DeviceStream, ...]]:
    """Streams in order, and each row's index among them; `lane_streams[i]` is what place `used[i]`
    stands for."""
    streams = tuple(sorted(set(lane_streams), key=lambda s: (s.device, s.stream)))
    place = {stream: i for i, stream in enumerate(streams)}
    table = np.zeros(size, dtype=np.int64)
    table[used] = [place[stream] for stream in lane_streams]
    return look_up(table), streams


def device_streams(trace: TraceColumns) -> tuple[Int64, tuple[DeviceStream, ...]]:
    """`streams_of` all `device_rows`. Kept with the trace; read-only."""
    remaining_streams = vars(trace)
    if "_device_streams" not in remaining_streams:
        remaining_streams["_device_streams"] = streams_of(trace, device_rows(trace))
        remaining_streams["_device_streams"][0].setflags(write=False)
    index, streams = remaining_streams["_device_streams"]
    return index, streams


def by_stream(index: Int64, count: int) -> Int64:
    """Order in which entries of one stream stand together; within it their order is kept."""
    quick = order_by_key(index, max(count, 1))
    if quick is not None:
        return quick
    # numpy sorts 16-bit integers by radix, in linear time.
    small = index.astype(np.uint16) if count <= 1 << 16 else index
    return np.argsort(small, kind="stable")
