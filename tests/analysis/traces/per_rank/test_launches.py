"""From the launch to the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.per_rank.launches import (
    CallKind,
    call_kind,
    launch_stats,
    launch_summary,
    rows,
)
from tests.analysis.traces.device_traces import COPY, GEMM, copy, kernel, launch, trace_of
from tests.analysis.traces.goldens import golden, sets_with, views_of

HTAS_CALLS = (
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cudaMemcpyAsync",
    "cudaMemsetAsync",
    "runFunction - job_prep_and_submit_for_execution",
)
"""The only launches that HTA knows here."""


@pytest.mark.parametrize("set_name", sets_with("cuda_kernel_launch_stats"))
def test_launches_are_htas_for_the_calls_that_it_knows(set_name: str) -> None:
    said = golden(set_name, "cuda_kernel_launch_stats")
    for rank, view in views_of(set_name).items():
        if str(rank) not in said:
            assert rank > 0, "HTA gives rank 0 unless asked"
            continue
        wanted = sorted(
            (r["correlation"], r["cpu_duration"], r["gpu_duration"], r["launch_delay"])
            for r in said[str(rank)]
        )
        assert _known_to_hta(view) == wanted
        assert len(launch_stats(view)) >= len(wanted)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaLaunchKernel", "kernel"),
        ("cudaLaunchKernelExC", "kernel"),
        ("cudaLaunchCooperativeKernel", "kernel"),
        ("cuLaunchKernel", "kernel"),
        ("cuLaunchKernelEx", "kernel"),
        ("hipLaunchKernel", "kernel"),
        ("hipExtLaunchKernel", "kernel"),
        ("hipModuleLaunchKernel", "kernel"),
        ("hipExtModuleLaunchKernel", "kernel"),
        ("runFunction - job_prep_and_submit_for_execution", "kernel"),
        ("urEnqueueKernelLaunch", "kernel"),
        ("cudaGraphLaunch", "graph"),
        ("hipGraphLaunch", "graph"),
        ("cudaMemcpyAsync", "memory"),
        ("cudaMemcpy2DAsync", "memory"),
        ("cudaMemsetAsync", "memory"),
        ("hipMemcpyWithStream", "memory"),
        ("cudaMemcpy", "other"),
        ("cudaDeviceSynchronize", "other"),
        ("cudaStreamSynchronize", "other"),
    ],
)
def test_calls_that_launch_are_known_by_name(name: str, kind: CallKind) -> None:
    assert call_kind(name) == kind


def test_the_delay_is_from_the_end_of_the_call_to_the_begin_of_its_work(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        launch(0, 10, 1),
        kernel(GEMM, 15, 4, correlation=1),
        launch(20, 60, 2, "cuLaunchKernelEx", cat="cuda_driver"),
        kernel("triton_", 30, 10, correlation=2),
        launch(100, 5, 3, "hipMemcpyWithStream"),
        copy(COPY, 305, 10, correlation=3),
    )
    stats = launch_stats(trace)
    assert stats.delay_ns.tolist() == [5_000, 0, 200_000]
    assert stats.work_ns.tolist() == [4_000, 10_000, 10_000]
    assert stats.short_work.tolist() == [True, True, False]
    assert stats.long_call.tolist() == [False, True, False]
    assert stats.long_delay.tolist() == [False, False, True]


def test_a_graph_is_one_launch_of_many_kernels(tmp_path: Path) -> None:
    kernels = [kernel(f"k{i}", 20 + 10 * i, 5, correlation=9) for i in range(4)]
    trace = trace_of(tmp_path, launch(0, 10, 9, "cudaGraphLaunch"), *reversed(kernels))
    stats = launch_stats(trace)
    assert (stats.work_count.tolist(), stats.work_ns.tolist(), stats.delay_ns.tolist()) == (
        [4],
        [20_000],
        [10_000],
    )
    assert trace.name_of(int(stats.first_work[0])) == "k0"
    (summary,) = launch_summary(trace)
    assert (summary.kind, summary.count, summary.works) == ("graph", 1, 4)


def test_works_are_counted_with_the_call_that_launched_them(tmp_path: Path) -> None:
    events = []
    for number, works in enumerate((1, 3, 2)):
        events.append(launch(100 * number, 10, number + 1, "cudaGraphLaunch"))
        for work in range(works):
            at = 100 * number + 20 + 10 * work
            events.append(kernel(f"k{number}{work}", at, 5, correlation=number + 1))
    stats = launch_stats(trace_of(tmp_path, *events))
    assert stats.work_count.tolist() == [1, 3, 2]
    assert stats.work_ns.tolist() == [5_000, 15_000, 10_000]
    assert stats.delay_ns.tolist() == [10_000] * 3


def test_what_the_capture_cut_off_is_counted(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        launch(0, 10, 1),
        launch(20, 10, 2),
        kernel(GEMM, 0, 5, correlation=77),
        kernel(GEMM, 9, 1),
    )
    stats = launch_stats(trace)
    assert (len(stats), stats.without_work, stats.work_without_launch) == (0, 2, 2)
    assert launch_summary(trace) == ()
    assert rows(trace)[0]["launches_without_work"] == 2
    assert len(launch_stats(trace_of(tmp_path))) == 0


def _known_to_hta(view: TraceColumns) -> list[tuple[int, float, float, float]]:
    stats = launch_stats(view)
    return sorted(
        (int(view.correlation[row]), call / 1000, work / 1000, delay / 1000)
        for row, call, work, delay in zip(
            stats.row.tolist(),
            stats.call_ns.tolist(),
            stats.work_ns.tolist(),
            stats.delay_ns.tolist(),
            strict=True,
        )
        if view.name_of(row) in HTAS_CALLS
    )
