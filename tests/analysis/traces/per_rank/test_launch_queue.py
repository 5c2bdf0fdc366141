"""How much launched work waits on each stream."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from faultline.analysis.traces.columns.device import on_runtime
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.per_rank.launch_queue import (
    LaunchQueue,
    queue_length,
    queue_summary,
    rows,
    time_blocked,
)
from tests.analysis.traces.device_traces import GEMM, at, kernel, launch, trace_of
from tests.analysis.traces.goldens import golden, sets_with, views_of

HTAS_CALLS = {
    *(
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "cudaMemcpyAsync",
    ),
    *(
        "cudaMemsetAsync",
        "hipLaunchKernel",
        "hipExtModuleLaunchKernel",
        "hipMemcpyAsync",
        "hipMemsetAsync",
    ),
    *("hipMemcpyWithStream", "runFunction - job_prep_and_submit_for_execution"),
}
GRAPHS, HIP, MTIA = (
    "HTA leaves graphs out",
    "HTA does not know this launch of HIP",
    "HTA knows one launch of MTIA",
)
DIFFERENT = {
    "negative_queue_length": GRAPHS,
    "trace_diff_test": GRAPHS,
    "vllm_decode_graph": GRAPHS,
    "mi300_qwen": HIP,
    "mi300_resnet_ddp8_actckpt": HIP,
    "mi300_torch_compile": HIP,
    "mtia_inference": MTIA,
}


@pytest.mark.parametrize("set_name", sets_with("queue_length_time_series"))
def test_the_queues_are_htas_at_every_moment(set_name: str) -> None:
    views = views_of(set_name)
    origin = min(int(view.ts.min()) for view in views.values())
    said = golden(set_name, "queue_length_time_series")
    for rank, view in views.items():
        wanted = {(p["stream"], int(p["ts"])): p["queue_length"] for p in said.get(str(rank), [])}
        assert _by_moment(queue_length(_with_htas_calls(view)), origin) == wanted


@pytest.mark.parametrize("set_name", sets_with("queue_length_summary"))
def test_the_summaries_are_htas_but_for_its_order_within_a_microsecond(set_name: str) -> None:
    said = {(row["rank"], row["stream"]): row for row in golden(set_name, "queue_length_summary")}
    different = False
    for rank, view in views_of(set_name).items():
        for summary in queue_summary(queue_length(view)):
            wanted = said.get((rank, summary.stream.stream))
            different |= wanted is None or wanted["queue_length|count"] != summary.lengths.count
        queue = queue_length(_with_htas_calls(view))
        for summary in queue_summary(queue):
            index = queue.streams.index(summary.stream)
            row = {
                key.partition("|")[2]: value
                for key, value in said[rank, summary.stream.stream].items()
            }
            lengths, lowest = queue.length[queue.stream == index], _starts_first(queue, index)
            assert summary.lengths.count == row["count"]
            assert lowest.mean() - 1e-9 <= row["mean"] <= lengths.mean() + 1e-9
            assert lowest.max() <= row["max"] <= lengths.max()
            if np.array_equal(lowest, lengths):
                ours = summary.lengths
                assert [
                    ours.mean,
                    ours.std,
                    ours.min,
                    ours.p25,
                    ours.p50,
                    ours.p75,
                    ours.max,
                ] == pytest.approx(
                    [row[key] for key in ("mean", "std", "min", "25%", "50%", "75%", "max")]
                )
    assert different == (set_name in DIFFERENT), DIFFERENT.get(set_name)


@pytest.mark.parametrize("limit", [50, 1024])
@pytest.mark.parametrize("set_name", sets_with("time_blocked_queue_ge_50"))
def test_the_blocked_time_is_htas_on_the_stream_that_it_gives(set_name: str, limit: int) -> None:
    said = golden(
        set_name, "time_blocked_queue_ge_50" if limit == 50 else "time_blocked_full_queue"
    )
    wanted = {row["rank"]: row for row in said}
    for rank, view in views_of(set_name).items():
        queue = queue_length(_with_htas_calls(view))
        found = {b.stream.stream: b for b in time_blocked(view, queue, limit)}
        assert bool(found) == (rank in wanted)
        if rank in wanted:
            row = wanted[rank]
            assert row["stream"] == max(found), "of several streams HTA keeps the last"
            blocked = found[row["stream"]]
            assert blocked.blocked_ns / 1000 == row["duration_at_max_queue_length"]
            assert blocked.percent / 100 == pytest.approx(
                row["relative_duration_at_max_queue_length"]
            )


def test_the_queue_grows_with_each_launch_and_shrinks_when_work_begins(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        *(launch(10 * i, 2, 1 + i) for i in range(3)),
        *(kernel(GEMM, 25 + 100 * i, 90, correlation=1 + i) for i in range(3)),
        launch(300, 2, 9),
        kernel(GEMM, 305, 5, stream=8, correlation=9),
    )
    queue = queue_length(trace)
    mine = queue.stream == 0
    assert ((queue.time[mine] - at(0)) // 1000).tolist() == [0, 10, 20, 25, 125, 225]
    assert queue.length[mine].tolist() == [1, 2, 3, 2, 1, 0]
    assert queue.length[~mine].tolist() == [1, 0]
    first = queue_summary(queue)[0]
    assert (first.lengths.count, first.lengths.max) == (6, 3)
    assert first.mean_length == pytest.approx((1 * 10 + 2 * 10 + 3 * 5 + 2 * 100 + 1 * 100) / 225)


def test_a_full_queue_blocks_each_stream_for_itself(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        *(launch(s + 4 * i, 1, 10 * s + i) for s in (1, 2) for i in range(3)),
        *(
            kernel(GEMM, 20 * s + 100 * i, 5, stream=s, correlation=10 * s + i)
            for s in (1, 2)
            for i in range(3)
        ),
    )
    blocked = time_blocked(trace, queue_length(trace), limit=3)
    assert [(b.stream.stream, b.blocked_ns) for b in blocked] == [(1, 11_000), (2, 30_000)]
    assert blocked[1].percent == pytest.approx(100 * 30 / 239)
    assert time_blocked(trace, queue_length(trace)) == ()


def test_a_graph_is_one_entry_until_its_first_kernel_begins(tmp_path: Path) -> None:
    kernels = [kernel(f"k{i}", 20 + 10 * i, 5, correlation=9) for i in range(4)]
    trace = trace_of(tmp_path, launch(0, 10, 9, "cudaGraphLaunch"), *reversed(kernels))
    queue = queue_length(trace)
    assert (queue.length.tolist(), trace.name_of(int(queue.row[1]))) == ([1, 0], "k0")


def test_what_has_no_partner_is_counted_and_left_out(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        launch(0, 2, 1),
        launch(50, 2, 2),
        kernel(GEMM, 40, 5, correlation=2),
        kernel(GEMM, 60, 5, correlation=77),
    )
    queue = queue_length(trace)
    assert (queue.early, queue.work_without_launch, queue.length.tolist()) == (1, 1, [1, 0])
    assert rows(trace)[0] == {
        "stream": "all",
        "launches_without_work": 1,
        "work_without_launch": 1,
        "work_before_launch": 1,
    }
    empty = trace_of(tmp_path)
    assert len(queue_length(empty)) == 0
    assert queue_summary(queue_length(empty)) == ()
    assert time_blocked(empty, queue_length(empty)) == ()
    assert len(queue_length(empty).until) == 0


def _with_htas_calls(view: TraceColumns) -> TraceColumns:
    """Calls that HTA does not know launch nothing."""
    known = np.asarray([name in HTAS_CALLS for name in view.names] + [False])
    unknown = on_runtime(view) & ~known[view.name]
    return replace(view, correlation=np.where(unknown, -1, view.correlation))


def _by_moment(queue: LaunchQueue, origin: int) -> dict[tuple[int, int], int]:
    """The length after all changes of a microsecond."""
    moments = zip(
        queue.stream.tolist(),
        ((queue.time - origin) // 1000).tolist(),
        queue.length.tolist(),
        strict=True,
    )
    return {(queue.streams[stream].stream, time): length for stream, time, length in moments}


def _starts_first(queue: LaunchQueue, index: int) -> np.ndarray:
    """Lengths if of the changes at one moment those came first that shorten the queue."""
    mine = queue.stream == index
    change = np.diff(queue.length[mine], prepend=0)
    order = np.lexsort((change, queue.time[mine]))
    return np.cumsum(change[order])
