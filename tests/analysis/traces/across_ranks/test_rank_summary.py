from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faultline.analysis.traces.across_ranks import rank_summary
from faultline.analysis.traces.across_ranks.comparison import compare
from faultline.analysis.traces.across_ranks.rank_summary import (
    from_json,
    summarise,
    to_json,
    within_job,
)
from faultline.analysis.traces.per_rank import (
    collective_calls,
    long_idle,
    operation_times,
    step_times,
)
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.across_ranks.written_jobs import gpu_job, summaries_of
from tests.analysis.traces.written_traces import document, event, job, write_trace


def test_a_summary_survives_json(tmp_path: Path) -> None:
    for folder, traces in {"host": job(), "device": gpu_job()}.items():
        for summary in summaries_of(tmp_path / folder, traces):
            text = to_json(summary)
            again = from_json(text)
            assert to_json(again) == text
            assert again.collectives.start.tolist() == summary.collectives.start.tolist()
            assert again.operations.self_ns.tolist() == summary.operations.self_ns.tolist()
            assert json.loads(text)["rank"] == summary.rank


def test_what_was_no_summary_is_refused() -> None:
    for text in (b"{}", b"[1", b'{"rank":"x"}'):
        with pytest.raises(msgspec.DecodeError):
            from_json(text)


def test_an_empty_trace_has_a_summary(tmp_path: Path) -> None:
    summary = summarise(read_trace(write_trace(tmp_path / "rank0.json", document([]))))
    assert (
        summary.event_count,
        len(summary.steps),
        len(summary.collectives),
        len(summary.idle),
    ) == (0, 0, 0, 0)
    assert from_json(to_json(summary)).accelerator.vendor == "cpu"
    assert compare([summary]).why_not is not None


def test_a_summary_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collective_calls, "MAX_COLLECTIVES", 3)
    monkeypatch.setattr(long_idle, "MAX_INTERVALS", 2)
    monkeypatch.setattr(operation_times, "MAX_NAMES", 1)
    monkeypatch.setattr(step_times, "MAX_STEPS", 4)
    summary = summaries_of(tmp_path, gpu_job(pause_us=dict.fromkeys(range(6), 3000.0)))[0]
    assert (len(summary.collectives), summary.collectives.cut) == (3, 3)
    assert (len(summary.idle), summary.idle.cut) == (2, 5)
    assert len(summary.operations.names) == 1
    assert summary.operations.cut > 0
    assert (len(summary.steps), summary.steps.cut) == (4, 2)


def test_collectives_are_cut_between_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collective_calls, "MAX_COLLECTIVES", 5)
    traces = job(ranks=1)
    traces[0] += [dict(e, ts=e["ts"] + 1.0) for e in traces[0] if e["name"].startswith("gloo:")]
    calls = summaries_of(tmp_path, traces)[0].collectives
    assert calls.step.tolist() == [0, 0, 1, 1]
    assert calls.cut == 12


def test_beside_very_many_ranks_whole_steps_of_each_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = gpu_job(ranks=4, steps=6, late_us={1: 8_000.0})
    ranks = summaries_of(tmp_path, traces)
    assert [within_job(summary, 4) for summary in ranks] == ranks
    monkeypatch.setattr(rank_summary, "LEAST_COLLECTIVES", 2)
    monkeypatch.setattr(rank_summary, "MAX_COLLECTIVES_OF_JOB", 16)
    kept = [within_job(summary, 4) for summary in ranks]
    assert {(len(s.collectives), s.collectives.cut) for s in kept} == {(4, 2)}
    # Nothing of the longer columns stays in memory.
    assert kept[0].collectives.start.base is None
    compared = compare(kept)
    assert compared.job.steps == (0, 1, 2, 3)
    assert [blamed.rank for blamed in compared.stragglers] == [1]


@pytest.mark.parametrize(
    ("device", "vendor"),
    [
        ("NVIDIA H100", "cuda"),
        ("Tesla V100-SXM2-32GB", "cuda"),
        ("AMD Instinct MI300X VF", "hip"),
        ("Intel(R) Data Center GPU Max 1550", "xpu"),
        ("ARTEMIS", "mtia"),
        ("", "cuda"),
    ],
)
def test_the_accelerator_is_told(tmp_path: Path, device: str, vendor: str) -> None:
    content = document([event("k", 1.0, 5.0, cat="kernel", stream=7, correlation=1)])
    content["deviceProperties"] = [{"id": 0, "name": device}]
    summary = summarise(read_trace(write_trace(tmp_path / "rank0.json", content)))
    assert summary.accelerator.vendor == vendor
    assert summary.accelerator.name == device


def test_the_accelerators_time_is_split(tmp_path: Path) -> None:
    time = summaries_of(tmp_path, gpu_job(ranks=2, steps=1))[0].time_on_device
    assert (time.computation, time.communication, time.idle) == (7_500_000, 2_000_000, 0)
    assert time.window == 9_500_000


def test_self_time_is_what_lies_in_no_event_inside(tmp_path: Path) -> None:
    events = [
        event("ProfilerStep#3", 0.0, 100.0, cat="user_annotation"),
        event("outer", 10.0, 50.0),
        event("inner", 20.0, 10.0),
        event("inner", 35.0, 10.0),
        event("overlapping", 55.0, 20.0),
        event("elsewhere", 20.0, 30.0, tid=9),
    ]
    (summary,) = summaries_of(tmp_path, [events])
    assert summary.operations.per_step() == {
        "outer": 25_000.0,
        "elsewhere": 30_000.0,
        "inner": 20_000.0,
        "overlapping": 20_000.0,
    }
    assert summary.operations.per_step({4}) == {}


NAMES = [
    "ProfilerStep#1",
    "ProfilerStep#1",
    "gloo:all_reduce",
    "nccl:all_gather",
    "aten::mm",
    "## backward ##",
    "\x00",
]
CATEGORIES = [
    "cpu_op",
    "user_annotation",
    "kernel",
    "gpu_memcpy",
    "cuda_runtime",
    "gpu_user_annotation",
    "",
]
hostile = st.lists(
    st.fixed_dictionaries(
        {
            "ph": st.just("X"),
            "name": st.sampled_from(
                [*NAMES, "ncclDevKernel_AllReduce", "Optimizer.step#SGD.step", "k"]
            ),
            "cat": st.sampled_from(CATEGORIES),
            "pid": st.integers(0, 1),
            "tid": st.integers(0, 2),
            "ts": st.integers(0, 5_000),
            "dur": st.integers(0, 3_000),
            "args": st.fixed_dictionaries(
                {},
                optional={
                    "stream": st.sampled_from([0, 7, -1, 2**32 - 1, "0x0"]),
                    "correlation": st.integers(-1, 3),
                    "Seq": st.sampled_from([-2, 0, 1, 2, 1e300]),
                    "In msg nelems": st.sampled_from([-1, 0, 5, 1e300]),
                    "Group size": st.sampled_from([-3, 0, 2, 10**9, 1e300]),
                    "Process Group Name": st.sampled_from(["", "0", "a|b"]),
                    "Process Group Ranks": st.sampled_from(["[]", "[0, 1]", "[0, ...", "{"]),
                    "Input Dims": st.sampled_from(["[[3]]", [[-5]], [[]], "[[", {"a": 1}]),
                },
            ),
        }
    ),
    max_size=25,
)


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(hostile, min_size=1, max_size=3))
def test_no_trace_breaks_the_summary_or_the_comparison(
    tmp_path: Path, traces: list[list[dict[str, Any]]]
) -> None:
    summaries = summaries_of(tmp_path, traces)
    assert [to_json(from_json(to_json(s))) for s in summaries] == [to_json(s) for s in summaries]
    found = compare(summaries)
    assert found.extra_part(0) is None or found.extra_part(0) is not None
    assert len(found.steps) == len(traces)
    for own in found.steps:
        assert np.array_equal(sum(own.parts.values()), own.length)
    assert found.slow_steps is not None
    assert found.outlier_steps is not None


def test_steps_whose_collectives_were_cut_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collective_calls, "MAX_COLLECTIVES", 4)
    found = compare(summaries_of(tmp_path, gpu_job(late_us={1: 8_000.0})))
    assert found.job.steps == (0, 1, 2, 3)
    assert [(b.rank, b.steps_blamed) for b in found.stragglers] == [(1, 4)]


def test_a_group_of_very_many_ranks_is_known_by_name_and_size(tmp_path: Path) -> None:
    content = document(
        [event("ncclDevKernel_AllReduce", 1.0, 5.0, cat="kernel", stream=7, correlation=1)],
        world=5_000,
    )
    content["distributedInfo"]["pg_config"] = [{"pg_name": "0", "ranks": list(range(5_000))}]
    (group,) = summarise(
        read_trace(write_trace(tmp_path / "rank0.json", content))
    ).collectives.groups
    assert (group.size, group.ranks) == (5_000, None)


def test_frames_that_hold_waiting_are_no_operations(tmp_path: Path) -> None:
    events = [
        event("ProfilerStep#3", 0.0, 100.0, cat="user_annotation"),
        event("FSDP::all_gather (1)", 5.0, 90.0, cat="user_annotation"),
        event("c10d::_allgather_base_", 10.0, 50.0),
        event("aten::copy_", 70.0, 10.0),
    ]
    assert summaries_of(tmp_path, [events])[0].operations.per_step() == {"aten::copy_": 10_000.0}


def test_numbers_beyond_all_reason_are_unknown(tmp_path: Path) -> None:
    content = document(
        [event("ncclDevKernel_AllReduce", 1.0, 5.0, cat="kernel", stream=7, correlation=1)]
    )
    content["distributedInfo"] |= {
        "world_size": 10**400,
        "pg_config": [{"pg_name": "0", "ranks": [0, 10**400]}],
    }
    content["baseTimeNanoseconds"] = 10**30
    summary = from_json(
        to_json(summarise(read_trace(write_trace(tmp_path / "rank0.json", content))))
    )
    assert (summary.world_size, summary.clock.base_ns) == (None, None)
    assert summary.collectives.groups[0].ranks is None
    assert compare([summary]).job.missing_count == 0
