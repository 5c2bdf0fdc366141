"""Small traces for the critical path: rows by hand, in microseconds, without a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from faultline.analysis.traces.columns.events import (
    ArgumentColumns,
    SparseNumbers,
    TraceColumns,
    nothing,
)

MAIN, BACKWARD, SECOND_BACKWARD = ("1", "1"), ("1", "2"), ("1", "3")


@dataclass(frozen=True)
class Row:
    """One interval; times in us."""

    name: str
    ts: float
    dur: float
    category: str = "cpu_op"
    lane: tuple[str, str] = MAIN
    stream: int = -1
    correlation: int = -1
    wait_on_stream: int = -1
    wait_on_record: int = -1


def op(name: str, ts: float, dur: float, lane: tuple[str, str] = MAIN) -> Row:
    return Row(name, ts, dur, lane=lane)


def call(
    ts: float,
    dur: float,
    correlation: int = -1,
    name: str = "cudaLaunchKernel",
    lane: tuple[str, str] = MAIN,
) -> Row:
    return Row(name, ts, dur, "cuda_runtime", lane, correlation=correlation)


def kernel(
    ts: float,
    dur: float,
    correlation: int = -1,
    stream: int = 7,
    name: str = "gemm",
    device: str = "0",
) -> Row:
    category = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
    return Row(name, ts, dur, category, (device, str(stream)), stream, correlation)


def sync(
    name: str,
    ts: float,
    dur: float,
    correlation: int,
    stream: int = -1,
    on: int = -1,
    record: int = -1,
) -> Row:
    return Row(name, ts, dur, "cuda_sync", ("0", str(stream)), stream, correlation, on, record)


def trace_of(rows: Sequence[Row]) -> TraceColumns:
    """The rows as columns, in the order given."""
    names = sorted({r.name for r in rows})
    categories = sorted({r.category for r in rows})
    lanes = sorted({r.lane for r in rows})
    count = len(rows)

    def wide(values: Sequence[Any]) -> Any:
        return np.asarray(values, dtype=np.int64)

    waits = wide([i for i, r in enumerate(rows) if r.wait_on_record >= 0]).astype(np.int32)
    numbers = {
        "wait_on_stream": SparseNumbers(
            waits, np.asarray([rows[i].wait_on_stream for i in waits], dtype=np.float64)
        ),
        "wait_on_cuda_event_record_corr_id": SparseNumbers(
            waits, np.asarray([rows[i].wait_on_record for i in waits], dtype=np.float64)
        ),
    }
    return TraceColumns(
        file="trace.json",
        rank=0,
        rank_source="order",
        world_size=None,
        host=None,
        ts=wide([round(r.ts * 1000) for r in rows]),
        dur=wide([round(r.dur * 1000) for r in rows]),
        name=wide([names.index(r.name) for r in rows]).astype(np.int32),
        category=wide([categories.index(r.category) for r in rows]).astype(np.int32),
        lane=wide([lanes.index(r.lane) for r in rows]).astype(np.int32),
        names=tuple(names),
        categories=tuple(categories),
        lanes=tuple(lanes),
        event=np.arange(count, dtype=np.int64),
        offset=nothing(count),
        stream=wide([r.stream for r in rows]),
        correlation=wide([r.correlation for r in rows]),
        external_id=nothing(count),
        python_id=nothing(count),
        python_parent_id=nothing(count),
        arguments=ArgumentColumns(numbers, {}),
    )
