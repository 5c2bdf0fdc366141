from __future__ import annotations

from pathlib import Path

from faultline.analysis.traces.per_rank.tiny_kernels import rows, tiny_kernels
from tests.analysis.traces.device_traces import GEMM, NCCL, kernel, trace_of
from tests.analysis.traces.written_traces import event

STEP = event("ProfilerStep#1", 1_000, 1_000, cat="user_annotation")


def test_sizes_of_kernels_are_those_of_computation(tmp_path: Path) -> None:
    work = [kernel("elementwise", 1_000 + 20 * i, 4) for i in range(9)] + [
        kernel(GEMM, 1_500, 64),
        kernel(NCCL, 1_600, 3),
    ]
    trace = trace_of(tmp_path, STEP, *work)
    found = tiny_kernels(trace).kernels
    assert (found.count, found.mean_ns, found.median_ns, found.small) == (10, 10_000, 4_000, 9)
    assert (found.most_frequent, found.most_frequent_count) == ("elementwise", 9)
    assert rows(trace) == [
        {"kernel": "elementwise", "count": 9, "per_step": 9.0, "total_ns": 36_000, "mean_ns": 4_000}
    ]


def test_operators_that_contain_waiting_do_not_count(tmp_path: Path) -> None:
    calls = [
        event("aten::add", 1_100, 5),
        event("c10d::allreduce_", 1_200, 500),
        event("gloo:all_reduce", 1_200, 500),
    ]
    found = tiny_kernels(trace_of(tmp_path, STEP, *calls))
    assert (found.operators.count, found.operator_busy_ns) == (1, 5_000)
