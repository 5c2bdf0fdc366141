"""What the host did while nothing ran on the accelerator."""

from __future__ import annotations

from pathlib import Path

from faultline.analysis.traces.per_rank.idle_gaps import longest_gaps, rows
from tests.analysis.traces.device_traces import GEMM, at, kernel, launch, trace_of
from tests.analysis.traces.written_traces import event


def _thread(
    name: str, ts: float, dur: float, tid: int = 1, cat: str = "cpu_op"
) -> dict[str, object]:
    return event(name, ts, dur, cat=cat, tid=tid) | {"pid": 100}


def test_the_launching_threads_own_time_in_the_gap_comes_first(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        kernel(GEMM, 0, 10, correlation=1),
        _thread("train_step", -50, 400, cat="user_annotation"),
        _thread("load_batch", 5, 85),
        _thread("decode", 20, 60),
        _thread("worker", -10, 500, tid=2),
        launch(95, 3, 2),
        kernel(GEMM, 110, 10, correlation=2),
    )
    (gap,) = longest_gaps(trace)
    assert (gap.begin_ns, gap.duration_ns, gap.category) == (at(10), 100_000, "host_wait")
    assert [(call.name, call.self_ns, call.launching) for call in gap.host] == [
        ("decode", 60_000, True),
        ("load_batch", 20_000, True),
        ("train_step", 17_000, True),
        ("cudaLaunchKernel", 3_000, True),
        ("worker", 100_000, False),
    ]
    assert gap.unrecorded_ns == 0
    assert rows(trace)[0]["host_call"] == "decode"


def test_a_call_of_a_nanosecond_counts_and_a_moment_does_not(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        kernel(GEMM, 0, 10),
        _thread("short", 40, 0.001),
        _thread("moment", 60, 0),
        kernel(GEMM, 110, 10),
    )
    (gap,) = longest_gaps(trace)
    assert [(call.name, call.self_ns) for call in gap.host] == [("short", 1)]


def test_time_without_events_on_the_launching_thread_is_said(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path, kernel(GEMM, 0, 10), launch(50, 10, 2), kernel(GEMM, 70, 10, correlation=2)
    )
    (gap,) = longest_gaps(trace)
    assert gap.unrecorded_ns == 50_000


def test_the_longest_gaps_come_first_and_other_streams_fill_gaps(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        kernel(GEMM, 0, 10),
        kernel(GEMM, 20, 10),
        kernel(GEMM, 80, 10),
        kernel(GEMM, 200, 10),
        kernel("filler", 90, 105, stream=9),
    )
    assert [gap.duration_ns for gap in longest_gaps(trace)] == [50_000, 10_000, 5_000]
    assert [trace.name_of(gap.previous_row) for gap in longest_gaps(trace)] == [
        GEMM,
        GEMM,
        "filler",
    ]
    assert len(longest_gaps(trace, count=1)) == 1
    assert rows(trace)[0]["gap_ns"] == 50_000


def test_one_kernel_or_none_leaves_no_gap(tmp_path: Path) -> None:
    assert longest_gaps(trace_of(tmp_path, kernel(GEMM, 0, 10))) == ()
    assert rows(trace_of(tmp_path, launch(0, 2, 1))) == []
