from __future__ import annotations

from pathlib import Path

from faultline.analysis.traces.per_rank.host_syncs import host_syncs, rows
from tests.analysis.traces.device_traces import GEMM, kernel, launch, trace_of
from tests.analysis.traces.written_traces import event

STEPS = [
    event(f"ProfilerStep#{n}", 1_000 * n, 1_000, cat="user_annotation") | {"pid": 100}
    for n in (1, 2)
]
WORK = [
    launch(1_000, 5, 1),
    kernel(GEMM, 1_010, 490, correlation=1),
    launch(2_000, 5, 2),
    kernel(GEMM, 2_010, 490, correlation=2),
]


def item(ts: float, dur: float) -> list[dict[str, object]]:
    call = event("aten::item", ts, dur) | {"pid": 100}
    return [call, launch(ts + 1, dur - 2, 90, "cudaStreamSynchronize")]


def test_waits_are_counted_with_the_operator_that_made_them(tmp_path: Path) -> None:
    found = host_syncs(trace_of(tmp_path, *STEPS, *WORK, *item(1_100, 410)))
    assert (found.count, found.ns, found.by_operator, found.reads) == (
        1,
        408_000,
        (("aten::item", 1),),
        1,
    )


def test_idle_time_after_a_wait_lasts_until_the_next_kernel(tmp_path: Path) -> None:
    found = host_syncs(trace_of(tmp_path, *STEPS, *WORK, *item(1_100, 410)))
    assert found.idle_after_ns == (2_010 - 1_509) * 1_000


def test_a_wait_that_ends_while_work_is_queued_leaves_nothing_idle(tmp_path: Path) -> None:
    assert host_syncs(trace_of(tmp_path, *STEPS, *WORK, *item(1_100, 200))).idle_after_ns == 0


def test_waits_of_the_loader_and_the_profilers_last_one_are_left_out(tmp_path: Path) -> None:
    loader = event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1_600, 300) | {
        "pid": 100
    }
    inside = launch(1_700, 50, 91, "cudaStreamSynchronize")
    last = launch(2_600, 300, 92, "cudaDeviceSynchronize")
    assert host_syncs(trace_of(tmp_path, *STEPS, *WORK, loader, inside, last)).count == 0


def test_rows_sum_up_by_call(tmp_path: Path) -> None:
    found = rows(trace_of(tmp_path, *STEPS, *WORK, *item(1_100, 410), *item(2_100, 210)))
    assert found == [
        {"call": "cudaStreamSynchronize", "count": 2, "total_ns": 616_000, "longest_ns": 408_000}
    ]
