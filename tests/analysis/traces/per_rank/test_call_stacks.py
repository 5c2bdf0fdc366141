"""Call stacks: small traces by hand, and every frame of HTA's call graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.per_rank.call_stacks import (
    CallStacks,
    call_stacks,
    folded_stacks,
    rows,
)
from tests.analysis.traces.goldens import golden, sets_with, traces_of, views_of
from tests.analysis.traces.per_rank.stack_traces import (
    autograd,
    call,
    hta_rows,
    kernel,
    launch,
    step,
    trace_of,
)


def _linear(folder: Path) -> CallStacks:
    return call_stacks(
        trace_of(
            folder,
            [
                step(1, 0, 100),
                call("aten::linear", 10, 40),
                call("aten::addmm", 15, 30),
                launch(1, 20, 5),
                launch(2, 30, 5, name="cudaGraphLaunch"),
                kernel("gemm", 1, 60, 20, stream=0),
                kernel("a", 2, 81, 4),
                kernel("b", 2, 90, 2),
                kernel("lonely", 9, 95, 1),
            ],
        )
    )


def test_calls_nest_by_time_and_kernels_belong_to_their_launch(tmp_path: Path) -> None:
    stacks = _linear(tmp_path)
    assert stacks.parent.tolist() == [-1, 0, 1, 2, 2, 3, 4, 4, -1]
    assert stacks.depth.tolist() == [0, 1, 2, 3, 3, 4, 4, 4, 0]
    assert stacks.height.tolist() == [4, 3, 2, 1, 1, 0, 0, 0, 0]
    assert stacks.num_kernels.tolist() == [3, 3, 3, 1, 2, 1, 1, 1, 1]
    assert stacks.kernel_sum_ns.tolist()[:5] == [26_000, 26_000, 26_000, 20_000, 6_000]
    assert stacks.self_ns.tolist()[:5] == [60_000, 10_000, 20_000, 5_000, 5_000]


def test_paths_children_leaves_and_descendants(tmp_path: Path) -> None:
    stacks = _linear(tmp_path)
    assert stacks.path_to_root(6) == [6, 4, 2, 1, 0]
    assert stacks.children(2).tolist() == [3, 4]
    assert sorted(stacks.descendants(2).tolist()) == [2, 3, 4, 5, 6, 7]
    assert sorted(stacks.leaves(0).tolist()) == [5, 6, 7]


def test_an_overlapping_call_is_counted_and_stays_a_child(tmp_path: Path) -> None:
    stacks = call_stacks(trace_of(tmp_path, [call("a", 0, 10), call("b", 5, 10), call("c", 12, 1)]))
    assert stacks.parent.tolist() == [-1, 0, 1]
    assert stacks.overlaps == 1
    assert stacks.self_ns.tolist() == [0, 9_000, 1_000]


def test_calls_without_length_lie_in_what_begins_or_ends_at_their_moment(tmp_path: Path) -> None:
    events = [
        call("a", 0, 10),
        call("at its end", 10, 0),
        call("b", 20, 5),
        call("at its start", 20, 0),
    ]
    stacks = call_stacks(
        trace_of(tmp_path, [*events, call("inside that", 20, 0), call("alone", 90, 0)])
    )
    assert stacks.parent.tolist() == [-1, 0, -1, 2, 3, -1]


def test_the_backward_pass_hangs_under_the_call_that_waits_for_it(tmp_path: Path) -> None:
    events = [
        step(1, 0, 100),
        call("aten::mul", 5, 10, args=autograd(3)),
        call("aten::view", 6, 2, args=autograd(3)),
        call("## backward ##", 20, 60, cat="user_annotation"),
        call("run_backward", 21, 58, cat="python_function"),
        call("autograd::engine::evaluate_function: MulBackward0", 30, 20, tid=2),
        call("MulBackward0", 31, 18, tid=2, args=autograd(3, thread=1)),
        call("after", 95, 20, tid=2),
    ]
    trace = trace_of(tmp_path, events)
    stacks = call_stacks(trace)
    assert stacks.parent.tolist() == [-1, 0, 1, 0, 3, 4, 5, -1]
    assert stacks.forward.tolist() == [-1, -1, -1, -1, -1, -1, 2, -1]
    assert call_stacks(trace, link_backward=False).parent.tolist() == [-1, 0, 1, 0, 3, -1, 5, -1]


def test_an_empty_trace_has_an_empty_forest(tmp_path: Path) -> None:
    stacks = call_stacks(trace_of(tmp_path, []))
    assert (
        len(stacks.depth)
        == len(stacks.height)
        == len(stacks.num_kernels)
        == len(stacks.self_ns)
        == 0
    )


def test_a_stack_of_a_hundred_thousand_calls_is_no_recursion(tmp_path: Path) -> None:
    deep = 100_000
    stacks = call_stacks(trace_of(tmp_path, [call("f", i, 3 * deep - 2 * i) for i in range(deep)]))
    assert int(stacks.depth.max()) == deep - 1
    assert len(stacks.path_to_root(deep - 1)) == deep


def test_stacks_fold_over_steps_and_their_times_add_up(tmp_path: Path) -> None:
    events = [
        step(1, 0, 50),
        call("aten::mm", 10, 20),
        launch(1, 12, 5),
        kernel("gemm", 1, 15, 30),
        step(2, 50, 50),
        call("aten::mm", 60, 20),
        launch(2, 62, 5),
        kernel("gemm", 2, 65, 20),
        kernel("lonely", 9, 95, 1),
    ]
    trace = trace_of(tmp_path, events)
    on_device = folded_stacks(call_stacks(trace))
    assert [(f.frames, f.rows, f.device_ns) for f in on_device] == [
        (("ProfilerStep", "aten::mm", "cudaLaunchKernel", "gemm"), 2, 50_000),
        (("lonely",), 1, 1_000),
    ]
    on_host = folded_stacks(call_stacks(trace), "host")
    assert [(f.frames[-1], f.host_ns) for f in on_host] == [
        ("ProfilerStep", 60_000),
        ("aten::mm", 30_000),
        ("cudaLaunchKernel", 10_000),
    ]
    assert rows(trace)[0]["device_ns"] == 50_000


def test_folded_stacks_are_at_most_128_frames_long(tmp_path: Path) -> None:
    stacks = call_stacks(trace_of(tmp_path, [call(f"f{i}", i, 2000 - 2 * i) for i in range(500)]))
    folded = folded_stacks(stacks, "host")
    assert max(len(f.frames) for f in folded) == 128
    assert sum(f.host_ns for f in folded) == 2_000_000


LOST_LENGTH = {"amd_mi250": 2, "cpu_only": 2, "mi210_gpu_only": 566}
"""Calls whose length became -1 us by HTA's rounding, and what it hangs under them: they never end
for it."""
SHORT_NUMBERS = ("cupti_profiler",)
"""HTA stores the parent in the type that the heights need: here in one byte, and numbers wrap
round."""
ARBITRARY = {"param_resnet": 2, "trace_diff_control": 2}
"""Levels by which HTA's sum of depths is off: where a call without length stands at the end of one
call and the start of the next, its sort has no order."""


@pytest.mark.parametrize("set_name", sets_with("call_graph_new"))
def test_sums_over_the_forest_are_those_of_hta(set_name: str) -> None:
    said = golden(set_name, "call_graph_new")
    stacks = call_stacks(hta_rows(views_of(set_name)[said["mapping"][0]["rank"]]))
    assert stacks.num_kernels.sum() == said["sum_num_kernels"]
    assert stacks.kernel_sum_ns.sum() == said["sum_kernel_dur_sum"] * 1000
    if set_name not in LOST_LENGTH:
        assert said["sum_depth"] - np.maximum(stacks.depth, 0).sum() == ARBITRARY.get(set_name, 0)
        assert stacks.depth.max() == said["max_depth"]


@pytest.mark.parametrize(
    "set_name", [s for s in sets_with("call_graph_new") if golden(s, "call_graph_new")["cols"]]
)
def test_every_row_is_that_of_hta(set_name: str) -> None:
    said = golden(set_name, "call_graph_new")
    stacks = call_stacks(hta_rows(views_of(set_name)[said["mapping"][0]["rank"]]))
    row_of = {int(event): row for row, event in enumerate(stacks.trace.event)}
    moved = _misplaced_by_hta(stacks.trace, said["cols"])
    for frame in said["cols"]:
        row = row_of[frame["index"]]
        assert stacks.num_kernels[row] == frame["num_kernels"]
        assert stacks.kernel_sum_ns[row] == frame["kernel_dur_sum"] * 1000
        if frame["index"] not in moved:
            assert stacks.depth[row] == frame["depth"]
            assert stacks.height[row] == frame["height"]
            assert _parents_event(stacks, row, short=set_name in SHORT_NUMBERS) == max(
                frame["parent"], -1
            )
    assert len(moved) == LOST_LENGTH.get(set_name, 0)


@pytest.mark.parametrize("set_name", ["amd_mi250", "triton_example", "mi210_gpu_only"])
def test_kernels_of_stream_0_are_in_our_forest_and_not_in_that_of_hta(
    shared: Path, set_name: str
) -> None:
    for trace in traces_of(set_name).values():
        stacks = call_stacks(trace)
        launched = np.flatnonzero(trace.on_device & (stacks.parent >= 0))
        assert len(launched)
        assert (stacks.num_kernels[stacks.parent[launched]] >= 1).all()
        assert golden(set_name, "call_graph_new")["sum_num_kernels"] < stacks.num_kernels.sum()


def _parents_event(stacks: CallStacks, row: int, *, short: bool) -> int:
    """The event number of the row's parent; as a signed byte where HTA stores it so, and -1 for
    what is negative."""
    parent = int(stacks.parent[row])
    number = int(stacks.trace.event[parent]) if parent >= 0 else -1
    return max((number + 128) % 256 - 128, -1) if short else number


def _misplaced_by_hta(trace: TraceColumns, frames: list[dict[str, Any]]) -> set[int]:
    """Events that it put under a call of negative length (directly or not), and such calls
    themselves."""
    parents = {f["index"]: f["parent"] for f in frames}
    endless = {int(e) for e in trace.event[trace.dur < 0]}
    found = set(endless & set(parents.values()) | endless & set(parents))
    while more := {i for i, p in parents.items() if p in found} - found:
        found |= more
    return found
