"""The critical path of one rank: what is on it, and how long it is."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.per_rank.critical_path import CriticalPath, critical_path
from faultline.analysis.traces.per_rank.critical_path_breakdown import (
    breakdown,
    longest_edges,
    rows,
    what_if,
)
from faultline.analysis.traces.per_rank.critical_path_events import (
    EdgeKind,
    PathWindow,
    Rules,
    annotation_window,
    last_complete_step,
    step_window,
)
from tests.analysis.traces.per_rank.critical_path_traces import (
    BACKWARD,
    MAIN,
    SECOND_BACKWARD,
    Row,
    call,
    kernel,
    op,
    sync,
    trace_of,
)

HTA_MODEL = Rules(gaps=False, waits=False, inferred=False, launches=False, data_loading=None)
AUTOGRAD = "autograd::engine::evaluate_function: MmBackward0"


def bounds_us(
    trace: TraceColumns, path: CriticalPath, rules: Rules | None = None
) -> dict[str, float]:
    return {b: t / 1000 for b, t in breakdown(trace, path, rules or Rules()).by_bound_ns.items()}


def kinds_on_path(path: CriticalPath) -> list[str]:
    return [EdgeKind(int(k)).name for k in path.edges.kind[path.path]]


def names_on_path(trace: TraceColumns, path: CriticalPath) -> set[str]:
    return {trace.name_of(int(row)) for row in path.rows()}


def test_nested_operators_share_their_time() -> None:
    trace = trace_of([op("outer", 0, 100), op("inner", 10, 30), op("later", 120, 5)])
    path = critical_path(trace, rules=HTA_MODEL)
    assert path.length_ns == 105_000
    times = {e.name: e.time_ns for e in breakdown(trace, path).names}
    assert times == {"outer": 70_000, "inner": 30_000, "later": 5_000}


def test_time_between_the_main_threads_operators_counts_as_the_hosts() -> None:
    trace = trace_of([op("first", 0, 100), op("second", 120, 5)])
    assert critical_path(trace).length_ns == 125_000
    assert bounds_us(trace, critical_path(trace)) == {"cpu_bound": 125.0}


def test_a_host_that_polls_waits_for_the_device() -> None:
    """`while not event.query()` in Python: no call is recorded while a kernel of 10 ms runs."""
    work = [op("aten::mm", 0, 20), call(5, 10, 1), kernel(30, 10_000, 1)]
    after = [op("aten::add", 10_050, 30), call(10_060, 10, 2), kernel(10_090, 40, 2)]
    trace = trace_of([*work, *after])
    path = critical_path(trace)
    found = bounds_us(trace, path)
    assert found["gpu_compute_bound"] == 10_040
    assert found["cpu_bound"] < 60
    assert path.length_ns == 10_130_000


def test_a_host_that_computes_beside_a_queue_is_not_what_the_step_waits_for() -> None:
    """The device has work for all of the gap and longer."""
    rows = [op("aten::mm", 0, 20), call(5, 10, 1), kernel(30, 20_000, 1)]
    rows += [op("aten::add", 8_000, 20), call(8_005, 10, 2), kernel(20_031, 40, 2)]
    trace = trace_of(rows)
    found = bounds_us(trace, critical_path(trace))
    assert found["gpu_compute_bound"] == 20_040
    assert found.get("cpu_bound", 0) < 40


def test_a_short_gap_in_which_a_kernel_happens_to_run_is_the_hosts() -> None:
    rows = [op("aten::mm", 0, 20), call(5, 10, 1), kernel(20, 58, 1)]
    rows += [op("aten::add", 80, 20), call(85, 10, 2), kernel(110, 5, 2)]
    trace = trace_of(rows)
    assert bounds_us(trace, critical_path(trace))["cpu_bound"] > 80


def test_a_path_through_the_host_beside_a_busy_device_is_questioned() -> None:
    rows_ = [op("aten::mm", 0, 9_950), call(5, 10, 1), kernel(20, 9_600, 1)]
    table = rows(trace_of(rows_))
    doubts = [row["name"] for row in table if row["what"] == "missing"]
    assert any("the device is busy 96 % of the window" in doubt for doubt in doubts)


def test_without_operators_the_time_between_calls_says_nothing() -> None:
    trace = trace_of([call(0, 10, 1), call(500, 10, 2), kernel(20, 5, 1), kernel(520, 5, 2)])
    assert critical_path(trace).length_ns < 100_000


def test_a_kernel_on_an_idle_stream_waits_for_its_launch() -> None:
    trace = trace_of([op("aten::mm", 0, 20), call(5, 10, 1), kernel(30, 500, 1)])
    path = critical_path(trace)
    assert path.length_ns == 530_000
    assert bounds_us(trace, path) == {
        "gpu_compute_bound": 500.0,
        "gpu_kernel_launch_overhead": 25.0,
        "cpu_bound": 5.0,
    }


def test_a_kernel_waits_for_its_launch_although_another_is_queued_behind_it() -> None:
    trace = trace_of([call(0, 10, 1), call(12, 10, 2), kernel(30, 100, 1), kernel(131, 100, 2)])
    kinds = kinds_on_path(critical_path(trace))
    assert kinds == ["LAUNCH_DELAY", "OPERATOR", "KERNEL_KERNEL_DELAY", "OPERATOR"]
    assert "LAUNCH_DELAY" not in kinds_on_path(critical_path(trace, rules=HTA_MODEL))


def test_a_kernel_launched_while_its_stream_was_busy_waits_for_the_one_before() -> None:
    trace = trace_of(
        [
            call(0, 5, 1),
            call(6, 5, 2),
            kernel(10, 100, 1),
            kernel(113, 50, 2, name="ncclDevKernel_AllReduce"),
        ]
    )
    path = critical_path(trace)
    assert bounds_us(trace, path) == {
        "gpu_compute_bound": 100.0,
        "gpu_communication_bound": 50.0,
        "gpu_kernel_launch_overhead": 10.0,
        "gpu_kernel_kernel_overhead": 3.0,
    }


def test_work_behind_work_from_before_the_window_waits_for_it() -> None:
    rows = [
        call(0, 5, 1),
        op("step", 100, 50),
        call(110, 5, 2),
        kernel(10, 900, 1),
        kernel(911, 40, 2),
    ]
    trace, window = trace_of(rows), PathWindow(100_000, 200_000)
    path = critical_path(trace, window)
    assert bounds_us(trace, path) == {
        "waiting": 801.0,
        "gpu_compute_bound": 40.0,
        "cpu_bound": 10.0,
    }
    assert kinds_on_path(critical_path(trace, window, HTA_MODEL)) == [
        "OPERATOR",
        "OPERATOR",
        "OPERATOR",
    ]
    assert kinds_on_path(critical_path(trace))[0] == "LAUNCH_DELAY"


@pytest.mark.parametrize("before", [True, False])
def test_a_kernel_on_an_idle_stream_that_starts_late_waited_for_the_busy_device(
    before: bool,
) -> None:
    begin = 0 if before else 100
    rows = [call(begin, 5, 1), op("step", 100, 50), call(110, 5, 2)]
    rows += [kernel(begin + 10, 4000, 1, stream=7), kernel(4300, 40, 2, stream=9)]
    found = bounds_us(trace_of(rows), critical_path(trace_of(rows), PathWindow(100_000, 200_000)))
    assert found["waiting" if before else "gpu_compute_bound"] >= 4000
    assert "gpu_kernel_launch_overhead" not in found or found["gpu_kernel_launch_overhead"] < 100


def test_a_call_that_waits_for_a_stream_hands_the_path_to_its_last_kernel() -> None:
    trace = trace_of(
        [
            op("aten::item", 0, 1000),
            call(5, 10, 1),
            call(20, 900, 2, "cudaStreamSynchronize"),
            kernel(30, 870, 1),
            sync("Stream Sync", 20, 885, 2, stream=7),
        ]
    )
    path = critical_path(trace)
    assert "SYNC_DEPENDENCY" in kinds_on_path(path)
    assert path.missing == ()
    assert bounds_us(trace, path) == {
        "gpu_compute_bound": 870.0,
        "cpu_bound": 105.0,
        "gpu_kernel_launch_overhead": 25.0,
    }


def test_without_synchronization_events_the_wait_is_inferred_and_said_so() -> None:
    rows = [
        op("aten::item", 0, 1000),
        call(5, 10, 1),
        call(20, 900, name="hipStreamSynchronize"),
        kernel(30, 870, 1, stream=0),
    ]
    path = critical_path(trace_of(rows))
    assert bounds_us(trace_of(rows), path)["gpu_compute_bound"] == 870.0
    assert "inferred from times" in path.missing[0]


def test_a_blocking_call_that_waits_for_nothing_known_is_waiting() -> None:
    trace = trace_of([op("aten::item", 0, 1000), call(20, 900, name="cudaDeviceSynchronize")])
    assert bounds_us(trace, critical_path(trace)) == {"waiting": 900.0, "cpu_bound": 100.0}


@pytest.mark.parametrize(
    "name",
    [
        "cudaDeviceSynchronize",
        "cudaEventSynchronize",
        "cudaMemcpy",
        "hipStreamSynchronize",
        "hipMemcpyWithStream",
        "cuStreamSynchronize",
        "zeCommandQueueSynchronize",
        "urQueueFinish",
    ],
)
def test_blocking_calls_of_every_vendor_are_known(name: str) -> None:
    trace = trace_of([call(20, 900, name=name)])
    assert bounds_us(trace, critical_path(trace)) == {"waiting": 900.0}


@pytest.mark.parametrize(
    "name", ["cudaEventQuery", "cudaLaunchKernel", "hipMemcpyAsync", "urEnqueueKernelLaunch"]
)
def test_other_calls_are_the_hosts_own_time(name: str) -> None:
    trace = trace_of([call(20, 900, name=name)])
    assert bounds_us(trace, critical_path(trace)) == {"cpu_bound": 900.0}


def test_many_threads_and_streams_are_no_problem() -> None:
    rows = [op(AUTOGRAD, i, 1, ("1", str(i))) for i in range(2_000)]
    for i in range(2_000):
        rows += [call(i, 0.5, i + 1), kernel(i + 1, 1, i + 1, stream=i)]
    rows += [call(i * 10, 5, 9_000 + i, "cudaDeviceSynchronize") for i in range(200)]
    rows += [sync("Context Sync", i * 10, 5, 9_000 + i) for i in range(200)]
    trace = trace_of(rows)
    path = critical_path(trace)
    assert sum(breakdown(trace, path).by_bound_ns.values()) == path.length_ns > 0


def test_a_copy_that_is_done_when_its_call_returns_was_waited_for() -> None:
    trace = trace_of(
        [
            op("aten::to", 0, 500),
            call(10, 400, 1, "cudaMemcpyAsync"),
            kernel(20, 380, 1, name="Memcpy DtoH"),
        ]
    )
    assert bounds_us(trace, critical_path(trace))["gpu_memory"] == 380.0


def wait_between_streams(waits: int = 1) -> list[Row]:
    """Stream 20 waits for what stream 7 (and stream 8, before it) had been given when the events
    were recorded."""
    rows = [
        call(0, 2, 1),
        call(4, 2, 2),
        call(10, 1, 3, "cudaEventRecord"),
        call(12, 1, 4, "cudaStreamWaitEvent"),
        call(16, 1, 5, "cudaEventRecord"),
        call(18, 1, 6, "cudaStreamWaitEvent"),
        call(20, 2, 7),
        kernel(8, 300, 1, stream=7, name="long"),
        kernel(9, 100, 2, stream=8, name="short"),
        kernel(312, 50, 7, stream=20, name="after"),
        sync("Stream Wait Event", 12, 1, 4, stream=20, on=7, record=3),
        sync("Stream Wait Event", 18, 1, 6, stream=20, on=8, record=5),
    ]
    return rows if waits == 2 else [r for r in rows if r.correlation not in (5, 6)]


@pytest.mark.parametrize("waits", [1, 2])
def test_work_on_another_stream_waits_for_the_recorded_event_even_when_it_waits_for_several(
    waits: int,
) -> None:
    trace = trace_of(wait_between_streams(waits))
    path = critical_path(trace)
    assert names_on_path(trace, path) == {"cudaLaunchKernel", "long", "after"}
    assert kinds_on_path(path) == ["LAUNCH_DELAY", "OPERATOR", "SYNC_DEPENDENCY", "OPERATOR"]


def test_without_events_work_that_starts_right_after_another_streams_end_waited_for_it() -> None:
    rows = [r for r in wait_between_streams() if r.category != "cuda_sync"]
    assert "SYNC_DEPENDENCY" in kinds_on_path(critical_path(trace_of(rows)))
    assert "SYNC_DEPENDENCY" not in kinds_on_path(
        critical_path(trace_of(rows), rules=Rules(inferred=False))
    )


def test_the_recording_of_an_event_that_is_not_in_the_trace_is_named() -> None:
    rows = [r for r in wait_between_streams() if r.name != "cudaEventRecord"]
    assert any(
        "recording is not in the trace" in line for line in critical_path(trace_of(rows)).missing
    )


def test_kernels_that_overlap_on_one_stream_are_not_counted_twice() -> None:
    trace = trace_of([call(0, 2, 1), call(3, 2, 2), kernel(10, 100, 1), kernel(60, 100, 2)])
    path = critical_path(trace)
    assert path.length_ns == 160_000


def test_streams_of_one_number_on_two_devices_are_two() -> None:
    rows = [call(0, 2, 1), call(3, 2, 2), kernel(10, 100, 1), kernel(111, 100, 2, device="1")]
    path = critical_path(trace_of(rows), rules=Rules(inferred=False))
    assert "KERNEL_KERNEL_DELAY" not in kinds_on_path(path)


def test_every_kernel_of_a_graph_is_in_the_graph_of_its_launch() -> None:
    rows = [call(0, 20, 1, "cudaGraphLaunch"), *(kernel(30 + 10 * i, 9, 1) for i in range(5))]
    path = critical_path(trace_of(rows))
    assert kinds_on_path(path).count("OPERATOR") == 5
    assert kinds_on_path(path).count("KERNEL_KERNEL_DELAY") == 4


@pytest.mark.parametrize("threads", [1, 2])
def test_the_main_thread_goes_on_when_the_backward_threads_are_done(threads: int) -> None:
    lanes = [BACKWARD, SECOND_BACKWARD][:threads]
    rows = [op("aten::forward", 0, 100), op("aten::step", 500, 50)]
    rows += [op(AUTOGRAD, 120 + 5 * i, 300 + 60 * i, lane) for i, lane in enumerate(lanes)]
    rows += [op(AUTOGRAD, 480, 10, lane) for lane in lanes[:1]]
    trace = trace_of(rows)
    path = critical_path(trace)
    assert path.length_ns == 550_000
    assert {AUTOGRAD, "aten::forward", "aten::step"} <= names_on_path(trace, path)
    without_gaps = critical_path(trace, rules=HTA_MODEL).length_ns
    assert without_gaps == (460_000 if threads == 1 else 510_000)


def test_calls_that_hold_the_lock_together_count_one_after_the_other() -> None:
    other = ("1", "9")
    rows = [call(0, 100, 1), call(10, 200, 2, "cudaHostAlloc", lane=other)]
    assert critical_path(trace_of(rows)).length_ns == 210_000 - 0
    assert critical_path(trace_of(rows)).edges.weight.max() == 110_000


def test_time_in_the_data_loader_is_data_loading_with_all_within_it() -> None:
    loader = Row(
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 400, "user_annotation"
    )
    trace = trace_of([loader, op("aten::stack", 100, 50), op("aten::mm", 400, 100)])
    assert bounds_us(trace, critical_path(trace)) == {"data_loading": 400.0, "cpu_bound": 100.0}


def test_windows_are_steps_annotations_or_times() -> None:
    steps = [Row(f"ProfilerStep#{n}", 100.0 * n, 100, "user_annotation") for n in range(1, 4)]
    trace = trace_of([*steps, *(op("aten::mm", 100.0 * n + 10, 10.0 * n) for n in range(1, 4))])
    step = step_window(trace, 2)
    assert step is not None
    assert critical_path(trace, step).length_ns == 20_000
    assert last_complete_step(trace) == step
    assert step_window(trace, 7) is None
    named = annotation_window(trace, "ProfilerStep", 0, 1)
    assert named is not None
    assert (named.begin, named.end) == (100_000, 300_000)
    assert annotation_window(trace, "nothing") is None
    assert critical_path(trace, PathWindow(300_000, 320_000)).length_ns == 30_000


def test_odd_traces_have_a_path_of_what_there_is() -> None:
    assert critical_path(trace_of([])).length_ns == 0
    assert critical_path(trace_of([kernel(5, 100)])).length_ns == 100_000
    assert (
        "1 kernels and copies without a launch in the trace"
        in critical_path(trace_of([kernel(5, 100)])).missing
    )
    assert critical_path(trace_of([op("a", 0, 0), op("b", 0, 0)])).length_ns == 0
    early = trace_of([call(50, 10, 1), kernel(20, 10, 1)])
    assert critical_path(early).lost == {"edges against time": 1}


def test_what_would_be_saved_is_bounded_by_the_next_longest_path() -> None:
    other = ("1", "9")
    trace = trace_of([op("slow", 0, 100), op("beside", 0, 90, other)])
    path = critical_path(trace)
    assert path.length_ns - path.length_without(np.asarray([0])) == 10_000


def test_without_a_kernel_what_it_waited_for_stays() -> None:
    rows = [
        call(0, 5, 1),
        op("step", 100, 50),
        call(110, 5, 2),
        kernel(10, 900, 1),
        kernel(911, 40, 2, name="mine"),
    ]
    trace = trace_of(rows)
    found = breakdown(trace, critical_path(trace, PathWindow(100_000, 200_000)))
    assert what_if(trace, found) == {"mine": 40_000, "step": 10_000}
    assert [(n.name, n.bound) for n in found.names] == [
        ("mine", "waiting"),
        ("mine", "gpu_compute_bound"),
        ("step", "cpu_bound"),
    ]


def test_rows_are_json_with_the_windows_path_bounds_and_names() -> None:
    steps = [Row(f"ProfilerStep#{n}", 100.0 * n, 100, "user_annotation") for n in range(1, 4)]
    trace = trace_of([*steps, *(op(f"aten::op{n}", 100.0 * n + 10, 10.0 * n) for n in range(1, 4))])
    table = rows(trace)
    assert json.loads(json.dumps(table)) == table
    assert table[0] == {
        "window": "step 2",
        "what": "path",
        "name": "",
        "bound_by": "",
        "time_ns": 20_000,
    }
    assert [r["name"] for r in table if r["what"] == "name"] == ["aten::op2"]
    assert table[-1]["saved_if_removed_ns"] == 20_000
    assert rows(trace_of([]))[0]["time_ns"] == 0


def test_the_longest_edges_of_the_path_can_be_opened() -> None:
    trace = trace_of([op("aten::mm", 0, 20), call(5, 10, 1), kernel(30, 500, 1)])
    found = breakdown(trace, critical_path(trace))
    table = longest_edges(trace, found)
    assert [(r["name"], r["time_ns"], r["bound_by"], r["event"]) for r in table] == [
        ("gemm", 500_000, "gpu_compute_bound", 2),
        ("gemm", 25_000, "gpu_kernel_launch_overhead", 2),
        ("aten::mm", 5_000, "cpu_bound", 0),
    ]
    assert longest_edges(trace, found, 2) == table[:2]
    assert [r for r in rows(trace) if r["what"] == "edge"] == table


times = st.integers(0, 60)
lengths = st.integers(0, 25)


@st.composite
def traces(draw: st.DrawFn) -> TraceColumns:
    rows = [
        op(
            draw(st.sampled_from(["a", "b", AUTOGRAD])),
            draw(times),
            draw(lengths),
            draw(st.sampled_from([MAIN, BACKWARD])),
        )
        for _ in range(draw(st.integers(0, 4)))
    ]
    for correlation in range(1, draw(st.integers(1, 5))):
        at = draw(times)
        name = draw(st.sampled_from(["cudaLaunchKernel", "cudaMemcpyAsync", "hipLaunchKernel"]))
        rows.append(
            call(at, draw(lengths), correlation, name, draw(st.sampled_from([MAIN, BACKWARD])))
        )
        what = draw(st.sampled_from(["gemm", "Memcpy DtoH", "ncclKernel"]))
        rows.append(
            kernel(
                at + draw(times) - 5,
                draw(lengths),
                correlation,
                draw(st.sampled_from([0, 7])),
                what,
            )
        )
    if draw(st.booleans()):
        rows.append(call(draw(times), draw(lengths), 50, "cudaDeviceSynchronize"))
        rows += [sync("Context Sync", r.ts, r.dur, 50) for r in rows[-1:] if draw(st.booleans())]
    return trace_of(rows)


rule_sets = st.builds(
    Rules,
    gaps=st.booleans(),
    waits=st.booleans(),
    inferred=st.booleans(),
    launches=st.booleans(),
    backward=st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(traces(), rule_sets)
def test_no_other_chain_of_edges_is_longer(trace: TraceColumns, rules: Rules) -> None:
    path = critical_path(trace, rules=rules)
    edges = list(
        zip(
            path.edges.source.tolist(),
            path.edges.target.tolist(),
            path.edges.weight.tolist(),
            strict=True,
        )
    )
    leaving: dict[int, list[tuple[int, int]]] = {}
    for source, target, weight in edges:
        assert source < target
        leaving.setdefault(source, []).append((target, weight))

    def longest(node: int) -> int:
        return max(
            (weight + longest(target) for target, weight in leaving.get(node, [])), default=0
        )

    assert path.length_ns == max(
        (longest(node) for node in range(path.events.node_count)), default=0
    )


@settings(max_examples=60, deadline=None)
@given(traces(), rule_sets)
def test_a_path_is_one_chain_within_its_time_and_its_breakdown_adds_up(
    trace: TraceColumns, rules: Rules
) -> None:
    path = critical_path(trace, rules=rules)
    source, target = path.edges.source[path.path], path.edges.target[path.path]
    assert (source[1:] == target[:-1]).all()
    assert (path.edges.weight >= 0).all()
    time = path.events.node_time
    assert (path.edges.weight <= time[path.edges.target] - time[path.edges.source]).all()
    found = breakdown(trace, path, rules)
    assert sum(found.by_bound_ns.values()) == path.length_ns == sum(n.time_ns for n in found.names)


@settings(max_examples=40, deadline=None)
@given(traces(), st.randoms(use_true_random=False))
def test_the_order_of_rows_in_the_file_does_not_change_the_length(
    trace: TraceColumns, random: object
) -> None:
    """Calls of one thread that begin and end together are left out but one: only the order tells
    which made which."""
    same = np.stack((trace.lane, trace.ts, trace.dur))
    alone = np.zeros(len(trace), dtype=np.bool_)
    alone[np.unique(same, axis=1, return_index=True)[1]] = True
    trace = trace.select(alone)
    order = np.random.default_rng(random.randint(0, 10**6)).permutation(len(trace))  # type: ignore[attr-defined]
    columns = ("ts", "dur", "name", "category", "lane", "stream", "correlation")
    moved = replace(trace, **{c: getattr(trace, c)[order] for c in columns})
    assert critical_path(moved).length_ns == critical_path(trace).length_ns
