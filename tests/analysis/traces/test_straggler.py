from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.traces.collectives import matched_collectives, operation_of
from analysis.traces.columns import TraceColumns
from analysis.traces.intervals import overlap, total, union
from analysis.traces.kineto import read_trace
from analysis.traces.steps import step_breakdown, steps_of
from analysis.traces.straggler import blame, slow_steps
from tests.analysis.traces.written_traces import BASE_NS, document, event, job, write_trace

LATE = {(2, step): 6_000.0 for step in range(8)}


def read_job(folder: Path, traces: list[list[dict[str, object]]], hosts: list[str] | None = None) -> list[TraceColumns]:
    return [
        read_trace(
            write_trace(folder / f"rank{r}.json", document(events, r, len(traces), hosts[r] if hosts else "node-a"))
        )
        for r, events in enumerate(traces)
    ]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=20))
def test_a_union_covers_each_moment_once(spans: list[tuple[int, int]]) -> None:
    starts, ends = (np.asarray([s[i] for s in spans], dtype=np.int64) for i in (0, 1))
    moments = {t for a, b in spans for t in range(a, b)}
    assert total(starts, ends) == len(moments)
    begin, end = union(starts, ends)
    assert (begin[1:] > end[:-1]).all()
    assert overlap((starts, ends), (np.array([10]), np.array([30]))) == len(moments & set(range(10, 30)))


def test_the_rank_that_is_always_late_is_charged_with_the_gap_it_makes(tmp_path: Path) -> None:
    analysis = blame(read_job(tmp_path, job(late_us=LATE)))
    assert [b.rank for b in analysis.stragglers] == [2]
    charged = analysis.ranks[2]
    # Rank 3 arrives 3 us after rank 0, so rank 2, 6 ms + 2 us late, is 5.999 ms behind the second last.
    assert charged.blame_ns == 8 * 5_999_000
    assert charged.steps_blamed == 8
    assert charged.share == pytest.approx(8 * 5.999 / 80)


def test_a_rank_that_is_late_by_little_at_every_collective_is_no_straggler(tmp_path: Path) -> None:
    analysis = blame(read_job(tmp_path, job()))
    assert analysis.comparable
    assert analysis.stragglers == ()
    assert analysis.ranks[3].share < 0.001


def test_one_long_pause_is_an_outlier_step_and_no_straggler(tmp_path: Path) -> None:
    analysis = blame(read_job(tmp_path, job(late_us={(1, 4): 90_000.0})))
    assert analysis.ranks[1].share > 0.5
    assert analysis.stragglers == ()
    assert [(s.rank, s.step) for s in slow_steps(analysis)] == [(1, 4)]


def test_jitter_of_a_few_steps_length_is_no_outlier(tmp_path: Path) -> None:
    analysis = blame(read_job(tmp_path, job(late_us={(1, 4): 30_000.0})))
    assert analysis.comparable
    assert slow_steps(analysis) == ()


def test_two_buckets_in_flight_wait_only_once(tmp_path: Path) -> None:
    traces = job(late_us=LATE)
    for events in traces:
        events += [dict(e, tid=3, args={"Input Dims": [[32]]}) for e in events if e["name"] == "gloo:all_reduce"]
    analysis = blame(read_job(tmp_path, traces))
    assert len(analysis.collectives) == 16
    assert analysis.ranks[2].blame_ns == 8 * 5_999_000


def test_collectives_of_different_sizes_are_matched_whatever_their_order(tmp_path: Path) -> None:
    def reduce(at: float, elements: int) -> dict[str, object]:
        return event("gloo:all_reduce", at, 50.0, cat="user_annotation", **{"Input Dims": [[elements]]})

    first = [reduce(100, 10), reduce(110, 20), reduce(300, 10)]
    second = [reduce(101, 20), reduce(111, 10), reduce(305, 10)]
    traces = read_job(tmp_path, [first, second])
    matched = matched_collectives(traces, [steps_of(t) for t in traces])
    pairs = {tuple(((row - BASE_NS) // 1000).tolist()) for row in matched.start}
    assert pairs == {(100, 111), (110, 101), (300, 305)}


def test_a_profile_that_began_a_step_earlier_is_matched_by_step(tmp_path: Path) -> None:
    traces = job(late_us=LATE)
    step_1 = min(e["ts"] for e in traces[0] if e["name"] == "ProfilerStep#1")
    traces[0] = [e for e in traces[0] if e["ts"] >= step_1]
    analysis = blame(read_job(tmp_path, traces))
    assert analysis.step_count == 7
    assert len(analysis.collectives) == 7
    assert analysis.collectives.unmatched == 3
    assert [b.rank for b in analysis.stragglers] == [2]


def test_clocks_of_other_hosts_are_aligned_by_the_ends_of_collectives(tmp_path: Path) -> None:
    traces = job(late_us=LATE, clock_us={0: 0.0, 1: 0.0, 2: -250_000.0, 3: -250_000.0})
    analysis = blame(read_job(tmp_path, traces, ["node-a", "node-a", "node-b", "node-b"]))
    assert analysis.clock_offset_ns.tolist() == [0, 0, -250_000_000, -250_000_000]
    assert [b.rank for b in analysis.stragglers] == [2]
    assert analysis.ranks[2].blame_ns == 8 * 5_999_000


def test_clocks_that_disagree_within_one_host_accuse_nobody(tmp_path: Path) -> None:
    analysis = blame(read_job(tmp_path, job(late_us=LATE, clock_us={3: 8_000.0})))
    assert analysis.impossible == 1.0
    assert analysis.stragglers == ()


def test_waiting_is_taken_out_of_the_phases(tmp_path: Path) -> None:
    traces = read_job(tmp_path, job(late_us=LATE))
    analysis = blame(traces)
    parts = [step_breakdown(t, s, analysis.waits_of(t.rank)) for t, s in zip(traces, analysis.steps, strict=True)]
    assert [round(p.phases["forward pass"], 1) for p in parts] == [2.0, 2.0, 8.0, 2.0]
    assert [round(p.phases["backward pass"], 1) for p in parts] == [1.0] * 4
    assert [round(p.wait_ms) for p in parts] == [6, 6, 0, 6]


@pytest.mark.parametrize(
    ("name", "collective", "operation"),
    [
        ("gloo:all_reduce", "", "all_reduce"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "", "all_reduce"),
        ("ncclKernel_ReduceScatter_RING_LL_Sum_bf16(ncclWorkElem)", "", "reduce_scatter"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "all_to_allv", "all_to_all"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "", None),
        ("gloo:broadcast", "", None),
        ("ncclDevKernel_Broadcast_RING_LL", "", None),
        ("aten::all_reduce", "", None),
    ],
)
def test_only_operations_that_hold_every_rank_are_collectives_to_blame(
    name: str, collective: str, operation: str | None
) -> None:
    assert operation_of(name, collective) == operation
