"""Analyses of the accelerator's time hold their promises whatever a trace holds."""

from __future__ import annotations

import json
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from faultline.analysis.traces.columns.events import (
    ArgumentColumns,
    SparseNumbers,
    TraceColumns,
    nothing,
)
from faultline.analysis.traces.per_rank import annotations as annotation_times
from faultline.analysis.traces.per_rank import (
    bandwidth,
    idle,
    idle_gaps,
    kernels,
    launch_queue,
    launches,
    temporal,
)

MODULES = (annotation_times, bandwidth, idle, idle_gaps, kernels, launch_queue, launches, temporal)
NAMES = (
    "ncclDevKernel_X",
    "Memcpy HtoD (Pageable -> Device)",
    "Memset",
    "k\x00\u202e",
    "",
    "cudaLaunchKernel",
    "a" * 5000,
)
CATEGORIES = (
    "kernel",
    "gpu_memcpy",
    "cuda_runtime",
    "user_annotation",
    "gpu_user_annotation",
    "cpu_op",
    "",
    "\x01",
)
FAR = 2**61


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.rpartition(".")[2])
@pytest.mark.parametrize("seed", range(25))
def test_any_columns_give_rows_of_json(module: ModuleType, seed: int) -> None:
    rows = module.rows(_anything(seed))
    assert len(rows) <= 1_000
    json.dumps(rows, allow_nan=False)


@pytest.mark.parametrize("seed", range(25))
def test_the_parts_of_a_breakdown_are_never_negative_and_add_up(seed: int) -> None:
    found = temporal.temporal_breakdown(_anything(seed))
    parts = (
        found.idle_ns,
        found.compute_ns,
        found.exposed_communication_ns,
        found.exposed_memory_ns,
    )
    assert min(parts) >= 0
    assert sum(parts) == found.kernel_ns
    assert found.exposed_communication_ns <= found.communication_ns


@pytest.mark.parametrize("seed", range(25))
def test_no_queue_is_below_zero_and_no_gap_is_empty(seed: int) -> None:
    trace = _anything(seed)
    assert (launch_queue.queue_length(trace).length >= 0).all()
    gaps = idle.stream_gaps(trace)
    assert (gaps.end > gaps.begin).all()
    assert sum(i.idle_ns for i in idle.idle_breakdown(trace)) == sum(
        (gaps.end - gaps.begin).tolist()
    )
    assert (bandwidth.bandwidth_series(trace).bytes_per_second >= 0).all()


def test_columns_without_a_row_are_no_error() -> None:
    nobody = _anything(0).select(np.zeros(len(_anything(0)), dtype=np.bool_))
    bare = replace(nobody, names=(), categories=(), lanes=())
    for module in MODULES:
        for trace in (nobody, bare):
            json.dumps(module.rows(trace), allow_nan=False)


def _anything(seed: int) -> TraceColumns:
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 200))
    reach = int(random.choice([10, 10_000, FAR]))

    def some(low: int, high: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return random.integers(low, high, count)

    arguments = {
        name: SparseNumbers(
            np.arange(count, dtype=np.int32), random.choice([-1.0, 0.0, 3.5, 1e300], count)
        )
        for name in (bandwidth.BANDWIDTH, bandwidth.BYTES)
    }
    return TraceColumns(
        file="t.json",
        rank=0,
        rank_source="order",
        world_size=None,
        host=None,
        ts=some(0, reach),
        dur=some(0, reach // 100 + 2),
        name=some(0, len(NAMES)).astype(np.int32),
        category=some(0, len(CATEGORIES)).astype(np.int32),
        lane=some(0, 6).astype(np.int32),
        names=NAMES,
        categories=CATEGORIES,
        lanes=tuple((str(i % 2), str(i)) for i in range(6)),
        event=np.arange(count),
        offset=nothing(count),
        stream=some(-1, 3) if seed % 2 else some(0, 2**31),
        correlation=some(-1, 40) if seed % 3 else some(-1, 40) * (2**55),
        external_id=nothing(count),
        python_id=nothing(count),
        python_parent_id=nothing(count),
        arguments=ArgumentColumns(arguments),
    )
