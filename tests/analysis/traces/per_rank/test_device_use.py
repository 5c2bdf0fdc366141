from __future__ import annotations

from pathlib import Path

from faultline.analysis.traces.per_rank.device_use import device_use, rows
from tests.analysis.traces.device_traces import GEMM, kernel, launch, trace_of
from tests.analysis.traces.written_traces import event

STEP = event("ProfilerStep#1", 0, 10_000, cat="user_annotation")


def test_gaps_and_what_the_host_did_in_the_longest(tmp_path: Path) -> None:
    work = [
        kernel(GEMM, 0, 1_000),
        kernel(GEMM, 2_000, 1_000),
        kernel(GEMM, 7_000, 3_000, stream=9),
    ]
    found = device_use(trace_of(tmp_path, STEP, event("tokenise", 3_500, 3_000), *work))
    assert (found.busy_ns, found.busy_share, found.long_gaps, found.longest_gap_ns) == (
        5_000_000,
        0.5,
        2,
        4_000_000,
    )
    assert found.in_gap is not None
    assert found.in_gap.name == "tokenise"


def test_what_runs_on_after_the_last_step_is_no_gap(tmp_path: Path) -> None:
    work = [kernel(GEMM, 0, 10_000), kernel(GEMM, 30_000, 10)]
    found = device_use(trace_of(tmp_path, STEP, *work))
    assert (found.busy_share, found.long_gaps) == (1.0, 0)


def test_the_queue_counts_launches_that_have_not_started(tmp_path: Path) -> None:
    events = [launch(i, 0.5, i + 1) for i in range(1_100)] + [
        kernel(GEMM, 2_000 + 5 * i, 5, correlation=i + 1) for i in range(1_100)
    ]
    found = device_use(trace_of(tmp_path, STEP, *events))
    assert found.most_outstanding == 1_100
    assert found.full_queue_ns == (2_000 + 5 * 76 - 1_023) * 1_000


def test_a_rank_without_an_accelerator_has_no_use_of_it(tmp_path: Path) -> None:
    found = device_use(trace_of(tmp_path, STEP))
    assert (found.busy_ns, found.long_gaps, found.most_outstanding) == (0, 0, 0)
    assert rows(trace_of(tmp_path, STEP))[0]["in_longest_gap"] is None


def test_a_graph_of_many_kernels_is_one_launch(tmp_path: Path) -> None:
    work = [kernel(GEMM, 100 + 5 * i, 5, correlation=1) for i in range(1_100)]
    found = device_use(trace_of(tmp_path, STEP, launch(1, 5, 1, name="cudaGraphLaunch"), *work))
    assert (found.full_queue_ns, found.most_outstanding) == (0, 1)
