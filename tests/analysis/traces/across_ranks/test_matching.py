from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.traces.across_ranks.matching import matched_collectives
from faultline.analysis.traces.per_rank.collective_names import (
    element_bytes,
    elements_of,
    operation_named,
    ranks_of,
)
from tests.analysis.traces.across_ranks.written_jobs import (
    GROUP,
    comparison_of,
    gpu_job,
    nanoseconds,
    nccl,
    summaries_of,
)
from tests.analysis.traces.written_traces import BASE_NS, event, job

LATE = {(2, step): 6_000.0 for step in range(8)}


def reduce(at: float, elements: int) -> dict[str, Any]:
    return event("gloo:all_reduce", at, 50.0, cat="user_annotation", **{"Input Dims": [[elements]]})


def test_collectives_of_different_sizes_are_matched_whatever_their_order(tmp_path: Path) -> None:
    first = [reduce(100, 10), reduce(110, 20), reduce(300, 10)]
    second = [reduce(101, 20), reduce(111, 10), reduce(305, 10)]
    (block,) = matched_collectives(summaries_of(tmp_path, [first, second])).groups
    pairs = {tuple(((row - BASE_NS) // 1000).tolist()) for row in block.start}
    assert pairs == {(100, 111), (110, 101), (300, 305)}


def test_a_profile_that_began_a_step_earlier_is_matched_by_step(tmp_path: Path) -> None:
    traces = job(late_us=LATE)
    step_1 = min(e["ts"] for e in traces[0] if e["name"] == "ProfilerStep#1")
    traces[0] = [e for e in traces[0] if e["ts"] >= step_1]
    found = comparison_of(tmp_path, traces)
    assert found.blame.step_count == 7
    assert (len(found.matched), found.matched.unmatched) == (7, 3)
    assert [b.rank for b in found.stragglers] == [2]


def test_windows_that_are_one_step_apart_hold_as_many_collectives_but_not_the_same(
    tmp_path: Path,
) -> None:
    traces = job(late_us=LATE)
    edges = sorted(e["ts"] for e in traces[0] if e["name"].startswith("ProfilerStep#"))
    traces[0] = [e for e in traces[0] if e["ts"] >= edges[1]]
    for rank in (1, 2, 3):
        traces[rank] = [e for e in traces[rank] if e["ts"] < edges[-1]]
    found = comparison_of(tmp_path, traces)
    assert found.clocks.impossible == 0.0
    assert found.blame.step_count == 6
    assert [b.rank for b in found.stragglers] == [2]


def test_sequence_numbers_match_whatever_was_recorded_before(tmp_path: Path) -> None:
    traces = gpu_job(ranks=2)
    kernels = [e for e in traces[0] if e["name"].startswith("nccl")]
    traces[0] = [e for e in traces[0] if e not in (kernels[0], kernels[3])]
    matched = matched_collectives(summaries_of(tmp_path, traces))
    (block,) = matched.groups
    assert matched.unmatched == 2
    assert len(block) == 4
    assert (block.end[:, 0] == block.end[:, 1]).all()


def test_groups_of_some_ranks_are_matched_among_these(tmp_path: Path) -> None:
    def calls(group: str, ranks: str, at: float) -> list[dict[str, Any]]:
        told = {"Process Group Name": group, "Process Group Ranks": ranks, "Group size": 2}
        return [nccl("AllReduce", at + 10 * k, at + 10 * k + 5, k, Seq=k, **told) for k in range(3)]

    traces = [
        calls("1", "[0, 1]", 100.0) + calls("3", "[0, 2]", 500.0),
        calls("1", "[0, 1]", 101.0),
        calls("2", "[2, 3]", 900.0) + calls("3", "[0, 2]", 502.0),
        calls("2", "[2, 3]", 903.0),
    ]
    matched = matched_collectives(summaries_of(tmp_path, traces))
    members = {block.group.name: block.places.tolist() for block in matched.groups}
    assert members == {"1": [0, 1], "2": [2, 3], "3": [0, 2]}
    assert len(matched) == 9
    assert (matched.unmatched, matched.partial_groups) == (0, ())


def test_a_group_with_ranks_that_have_no_trace_is_said_to_be_partial(tmp_path: Path) -> None:
    told = {**GROUP, "Process Group Ranks": "[0, 1, 2, ..., 127]", "Group size": 128}
    traces = [[nccl("AllReduce", 10.0 + r, 30.0, 1, Seq=4, **told)] for r in range(2)]
    matched = matched_collectives(summaries_of(tmp_path, traces))
    assert len(matched) == 1
    assert [(g.description, g.size, g.ranks) for g in matched.partial_groups] == [
        ("default_pg", 128, None)
    ]


def test_a_group_without_a_size_is_the_largest_world_that_a_rank_knows(tmp_path: Path) -> None:
    members = {"Process Group Name": "0", "Process Group Description": "default_pg"}
    traces = [[nccl("AllReduce", 10.0 + rank, 30.0, 1, Seq=4, **members)] for rank in range(2)]
    first, second = summaries_of(tmp_path, traces)
    assert matched_collectives([first, second]).partial_groups == ()
    (partial,) = matched_collectives([first, replace(second, world_size=3)]).partial_groups
    assert partial.description == "default_pg"


def test_sends_and_receives_are_not_matched(tmp_path: Path) -> None:
    told = {"Collective name": "send", **GROUP}
    traces = [
        [nccl("SendRecv", 10.0, 20.0, 1, **told), nccl("SendRecv", 30.0, 40.0, 2)] for _ in range(2)
    ]
    matched = matched_collectives(summaries_of(tmp_path, traces))
    assert (len(matched), matched.unmatched) == (0, 0)


def test_the_parts_of_an_all_to_all_may_differ_between_ranks(tmp_path: Path) -> None:
    told = {"Collective name": "all_to_allv", **GROUP, "dtype": "Half"}
    traces = [
        [nccl("SendRecv", 10.0, 20.0, 1, **told, **{"In msg nelems": 10 + r})] for r in range(3)
    ]
    (block,) = matched_collectives(summaries_of(tmp_path, traces)).groups
    assert block.operations == ("all_to_all",)
    assert block.bytes.tolist() == [24]


def test_a_kernel_that_says_nothing_gets_its_operation_and_size_from_its_launch(
    tmp_path: Path,
) -> None:
    note = {"Input Dims": [[6144]], "Input type": ["float"]}
    events = [
        event("nccl:all_to_all", 100.0, 60.0, cat="user_annotation", **note),
        event("cudaLaunchKernel", 120.0, 5.0, cat="cuda_runtime", correlation=5),
        nccl("SendRecv", 200.0, 300.0, 5),
    ]
    (summary,) = summaries_of(tmp_path, [events])
    calls = summary.collectives
    assert calls.operations == ("all_to_all",)
    assert (calls.elements.tolist(), calls.bytes.tolist()) == ([6144], [4 * 6144])
    assert calls.launch.tolist() == [nanoseconds(120.0)]


def test_launches_without_kernels_are_no_collectives(tmp_path: Path) -> None:
    events = [event("nccl:all_reduce", 100.0 * k, 5.0, cat="user_annotation") for k in range(4)]
    found = comparison_of(tmp_path, [events, events])
    assert len(found.matched) == 0
    assert found.job.ranks[0].collectives.launched_only == 4


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("gloo:all_reduce", "all_reduce"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_reduce"),
        ("ncclKernel_ReduceScatter_RING_LL_Sum_bf16(ncclWorkElem)", "reduce_scatter"),
        ("_allgather_base", "all_gather"),
        ("all_to_allv", "all_to_all"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send_recv"),
        ("gloo:broadcast", "broadcast"),
        ("ncclDevKernel_Reduce_Sum_f32", "reduce"),
        ("void vllm::cross_device_reduce_1stage<half, 2>", "all_reduce"),
        ("deep_ep::intranode::dispatch", "other"),
    ],
)
def test_the_operation_is_read_from_the_name(name: str, operation: str) -> None:
    assert operation_named(name) == operation


@pytest.mark.parametrize(
    ("dims", "elements"),
    [
        ("[[65792]]", 65792),
        ("[[2,3],[4]]", 10),
        ("", 0),
        ("[[", 0),
        ("[[],[]]", 0),
        ("[[" + "9" * 4000 + "]]", 0),
    ],
)
def test_shapes_are_counted_or_ignored(dims: str, elements: int) -> None:
    assert elements_of(dims) == elements


def test_element_types_have_their_width() -> None:
    widths = [
        element_bytes(t)
        for t in ("Float", "BFloat16", "Half", "long int", "c10::BFloat16", "Float8_e4m3fn", "?")
    ]
    assert widths == [4, 2, 2, 8, 2, 1, 0]


def test_a_shortened_list_of_ranks_is_no_list() -> None:
    assert ranks_of("[0, 1, 2]", 3) == (0, 1, 2)
    assert ranks_of("[0, 1, ..., 127]", 128) is None
    assert ranks_of("[]", 0) is None
