"""rocprofv3's JSON as columns: one trace per process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
import numpy as np

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.protobuf.wire import read_file
from faultline.analysis.traces.reading.assembled import EventPart, Names, assembled, words_of
from faultline.analysis.traces.reading.file_kinds import rank_in_name
from faultline.analysis.traces.rocprof.records import Call, Copy, Dispatch, Extent, Process, Results

FORMAT = "rocprofv3's JSON"
GPU = 2
MAX_PROCESSES = 256
MAX_REASON = 200
_CATEGORIES = {
    "hip_api": "cuda_runtime",
    "hsa_api": "cuda_driver",
    "marker_api": "user_annotation",
    "rccl_api": "cpu_op",
}
"""Kineto's categories; ROCm's calls are those of CUDA's there, too."""
_DIRECTIONS = {
    (1, GPU): "Memcpy HtoD",
    (GPU, 1): "Memcpy DtoH",
    (GPU, GPU): "Memcpy DtoD",
    (1, 1): "Memcpy HtoH",
}


class _Timed(Protocol):
    start_timestamp: int
    end_timestamp: int


R = TypeVar("R", bound=_Timed)


def read_results(path: Path) -> list[TraceColumns]:
    """All processes that have records, in their order.

    A file of one process whose name says a rank is that rank. Raises EvidenceError, one line, when
    the file is not rocprofv3's, is cut, or has no records.
    """
    buffer = read_file(path)
    # A cut file is no JSON: report the cut, not the parser's complaint.
    if buffer.dropped:
        raise EvidenceError(path.name, next(iter(buffer.dropped)))
    try:
        # Arguments of calls may hold bytes that are no UTF-8; they are skipped, not decoded.
        results = msgspec.json.decode(memoryview(buffer.raw)[: buffer.length], type=Results)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeError) as error:
        why = str(error)[:MAX_REASON]
        raise EvidenceError(path.name, f"is no readable JSON of rocprofv3 ({why})") from error
    traces: list[TraceColumns] = []
    for process in results.processes[:MAX_PROCESSES]:
        trace = _Process(path.name, len(traces), process).trace()
        if trace is not None:
            traces.append(trace)
    if not traces:
        raise EvidenceError(path.name, "has no kernels, copies, calls or markers")
    # The name of a file of several processes is no rank of any of them.
    rank = rank_in_name(path) if len(traces) == 1 else None
    if rank is None:
        return traces
    return [replace(traces[0], rank=rank, rank_source="file name")]


class _Process:
    """One process."""

    def __init__(self, file: str, rank: int, process: Process) -> None:
        self.file, self.rank, self.process = file, rank, process
        self.names = Names()
        self.agents = {agent.id.handle: agent for agent in process.agents}
        # Agents have handles: number the GPUs in the file's order.
        gpus = [agent.id.handle for agent in process.agents if agent.type == GPU]
        self.device = {handle: number for number, handle in enumerate(gpus)}
        self.symbols = {}
        for symbol in process.kernel_symbols:
            name = symbol.formatted_kernel_name or symbol.demangled_kernel_name
            self.symbols[symbol.kernel_id] = name or symbol.kernel_name
        self.messages = {message.key: message.value for message in process.strings.marker_api}
        self.queues: dict[int, int] = {}

    def trace(self) -> TraceColumns | None:
        """Its columns; None where it has no records."""
        records = self.process.buffer_records
        parts = self._kernels(records.kernel_dispatch) + self._copies(records.memory_copy)
        for source, category in _CATEGORIES.items():
            parts += self._calls(getattr(records, source), category)
        if not parts:
            return None
        devices = [
            {"id": number, "name": (agent.product_name or agent.name)[:128]}
            for number, agent in enumerate(a for a in self.process.agents if a.type == GPU)
        ]
        return assembled(
            parts,
            self.names,
            file=self.file,
            rank=self.rank,
            base=0,
            header={"deviceProperties": devices} if devices else {},
            dropped={},
            format=FORMAT,
        )

    def _kernels(self, dispatches: Sequence[Dispatch]) -> list[EventPart]:
        """By agent and stream; by queue where the build says no stream."""
        parts = []
        for (agent, stream), records in _grouped(dispatches, self._place).items():
            device = self.device.get(agent, 0)
            shared = [float(r.dispatch_info.group_segment_size) for r in records]
            parts.append(
                EventPart(
                    category="kernel",
                    lane=(str(device), f"stream {stream}"),
                    start=_column([r.start_timestamp for r in records]),
                    end=_column([r.end_timestamp for r in records]),
                    name=self.names.numbers([self._kernel(r) for r in records]),
                    stream=stream,
                    correlation=_column([r.correlation_id.internal for r in records]),
                    numbers={
                        "device": np.full(len(records), float(device)),
                        "shared memory": np.asarray(shared),
                    },
                    texts={
                        "grid": words_of([_blocks(r) for r in records]),
                        "block": words_of([_axes(r.dispatch_info.workgroup_size) for r in records]),
                    },
                )
            )
        return parts

    def _place(self, record: Dispatch) -> tuple[int, int]:
        info = record.dispatch_info
        if record.stream_id is not None:
            return info.agent_id.handle, _small(record.stream_id.handle)
        # Handles of queues are addresses.
        return info.agent_id.handle, self.queues.setdefault(info.queue_id.handle, len(self.queues))

    def _kernel(self, record: Dispatch) -> str:
        number = record.dispatch_info.kernel_id
        return self.symbols.get(number) or f"kernel {number}"

    def _copies(self, copies: Sequence[Copy]) -> list[EventPart]:
        parts = []
        for (agent, stream), records in _grouped(copies, self._copied).items():
            device = self.device.get(agent, 0)
            size = np.asarray([float(r.bytes) for r in records])
            start = _column([r.start_timestamp for r in records])
            end = _column([r.end_timestamp for r in records])
            parts.append(
                EventPart(
                    category="gpu_memcpy",
                    lane=(str(device), f"stream {stream}"),
                    start=start,
                    end=end,
                    name=self.names.numbers([self._direction(r) for r in records]),
                    stream=stream,
                    correlation=_column([r.correlation_id.internal for r in records]),
                    numbers={
                        "device": np.full(len(records), float(device)),
                        "bytes": size,
                        "memory bandwidth (GB/s)": size / np.maximum(end - start, 1),
                    },
                )
            )
        return parts

    def _copied(self, record: Copy) -> tuple[int, int]:
        """The accelerator of a copy: where it goes to, or comes from."""
        ends = (record.dst_agent_id.handle, record.src_agent_id.handle)
        agent = next((handle for handle in ends if handle in self.device), ends[0])
        return agent, _small(record.stream_id.handle) if record.stream_id else 0

    def _direction(self, record: Copy) -> str:
        kinds = []
        for end in (record.src_agent_id, record.dst_agent_id):
            agent = self.agents.get(end.handle)
            kinds.append(agent.type if agent is not None else 0)
        named = _DIRECTIONS.get((kinds[0], kinds[1]))
        return named or self._operation(record.kind, record.operation) or "Memcpy"

    def _calls(self, calls: Sequence[Call], category: str) -> list[EventPart]:
        parts = []
        for thread, records in _grouped(calls, lambda r: r.thread_id).items():
            names = []
            for record in records:
                message = ""
                if category == "user_annotation":
                    message = self.messages.get(record.correlation_id.internal, "")
                names.append(message or self._operation(record.kind, record.operation))
            parts.append(
                EventPart(
                    category=category,
                    lane=(str(self.process.metadata.pid), str(thread)),
                    start=_column([r.start_timestamp for r in records]),
                    end=_column([r.end_timestamp for r in records]),
                    name=self.names.numbers(names),
                    correlation=_column([r.correlation_id.internal for r in records]),
                )
            )
        return parts

    def _operation(self, kind: int, operation: int) -> str:
        kinds = self.process.strings.buffer_records
        if not 0 <= kind < len(kinds):
            return ""
        operations = kinds[kind].operations
        return operations[operation] if 0 <= operation < len(operations) else kinds[kind].kind


K = TypeVar("K")


def _grouped(records: Sequence[R], key: Callable[[R], K]) -> dict[K, list[R]]:
    groups: dict[K, list[R]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def _column(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Numbers of 64 bits; a larger one is unknown."""
    return np.asarray([v if -(1 << 63) <= v < 1 << 63 else -1 for v in values], dtype=np.int64)


def _small(handle: int) -> int:
    return handle if 0 <= handle < 1 << 30 else 0


def _axes(extent: Extent) -> str:
    return f"[{extent.x},{extent.y},{extent.z}]" if extent.x else ""


def _blocks(record: Dispatch) -> str:
    """The grid in blocks: HSA counts it in work items."""
    grid, block = record.dispatch_info.grid_size, record.dispatch_info.workgroup_size
    if not grid.x:
        return ""
    axes = ((grid.x, block.x), (grid.y, block.y), (grid.z, block.z))
    # Round up: the last block may be partly filled.
    return "[" + ",".join(str(-(-items // max(size, 1))) for items, size in axes) + "]"
