"""Rules on one GPU rank: idle time, small kernels, waits of the host, copies, memory, compiled
code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.traces.doctor.nothing_wrong import nothing_wrong
from faultline.analysis.traces.doctor.rules import diagnose
from tests.analysis.traces.device_traces import GEMM, copy, kernel, launch
from tests.analysis.traces.doctor.written_ranks import (
    STEP_US,
    accused,
    gpu_steps,
    informed,
    one_rank,
    quoted_numbers_are_given,
    read,
    the,
)
from tests.analysis.traces.written_traces import event

GPU = {
    "deviceProperties": [
        {
            "name": "NVIDIA A100",
            "totalGlobalMem": 40_000_000_000,
            "computeMajor": 8,
            "computeMinor": 0,
            "warpSize": 32,
        }
    ]
}


def host(
    name: str, ts: float, dur: float, cat: str = "user_annotation", **args: Any
) -> dict[str, Any]:
    return event(name, ts, dur, cat=cat, **args) | {"pid": 100}


def test_a_busy_gpu_has_nothing_wrong(tmp_path: Path) -> None:
    job = one_rank(tmp_path, gpu_steps())
    assert diagnose(job) == []
    assert nothing_wrong(job) == (
        "nothing wrong: 6 steps of 10 ms on 1 rank; accelerators are busy 90 % of the time"
    )


def test_a_gpu_that_idles_is_told_with_what_the_host_does(tmp_path: Path) -> None:
    def preprocess(step: int, at: float) -> list[dict[str, Any]]:
        return [host("tokenise", at + 3_000, 6_900)]

    found = the("gpu_idle", one_rank(tmp_path, gpu_steps(preprocess, busy_us=2_000)))
    assert (found.severity, found.subject) == ("warning", "rank 0")
    assert "busy only 20 % of the time" in found.statement
    assert "in which the host is in `tokenise`" in found.statement
    assert [e.name for e in found.events] == ["tokenise"]
    assert quoted_numbers_are_given(found.statement, dict(found.numbers))


def test_idle_time_that_the_loader_explains_is_laid_to_the_loader(tmp_path: Path) -> None:
    def loading(step: int, at: float) -> list[dict[str, Any]]:
        return [
            host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 2_300, 7_600)
        ]

    job = one_rank(tmp_path, gpu_steps(loading, busy_us=2_000))
    assert accused(job) == ["dataloader_stall"]
    found = the("dataloader_stall", job)
    assert found.statement == (
        "rank 0 spends 7.6 ms of each 10 ms step waiting for the data loader, which runs in the "
        "training process itself"
    )
    assert "num_workers=0" in found.fix
    assert quoted_numbers_are_given(found.statement, dict(found.numbers))


def test_one_stall_is_not_what_each_step_takes(tmp_path: Path) -> None:
    def loading(step: int, at: float) -> list[dict[str, Any]]:
        late = 7_600 if step == 3 else 20
        return [host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at, late)]

    events = gpu_steps(loading, steps=8, busy_us=1_500)
    assert "dataloader_stall" not in accused(one_rank(tmp_path, events))


def test_workers_that_read_ahead_stall_every_other_step(tmp_path: Path) -> None:
    def loading(step: int, at: float) -> list[dict[str, Any]]:
        late = 9_500 if step % 3 == 0 else 20
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        return [host(name, at + 300, late)]

    found = the("dataloader_stall", one_rank(tmp_path, gpu_steps(loading, busy_us=100)))
    assert found.statement == (
        "rank 0 spends 32 % of the time waiting for the data loader, in 2 of 6 steps"
    )
    assert quoted_numbers_are_given(found.statement, dict(found.numbers))


def test_an_idle_gpu_without_an_explanation_is_not_called_well(tmp_path: Path) -> None:
    sentence = nothing_wrong(one_rank(tmp_path, gpu_steps(busy_us=400, kernels=2)))
    assert sentence == (
        "no rule says why the accelerators work only 4 % of the time: 6 steps of 10 ms on 1 rank"
    )


def test_loading_while_the_gpu_works_costs_nothing(tmp_path: Path) -> None:
    def loading(step: int, at: float) -> list[dict[str, Any]]:
        return [
            host("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at + 300, 8_000)
        ]

    assert diagnose(one_rank(tmp_path, gpu_steps(loading))) == []


def small_kernels(busy_us: float) -> list[dict[str, Any]]:
    """300 kernels of a few microseconds, spread over the step."""
    events = []
    for step in range(6):
        at = 1_000.0 + step * STEP_US
        events.append(host(f"ProfilerStep#{step}", at, STEP_US))
        for i in range(300):
            correlation = 1_000 * (step + 1) + i
            events += [
                launch(at + 30 * i, 5.0, correlation),
                kernel("elementwise", at + 30 * i + 8, busy_us / 300, correlation=correlation),
            ]
    return events


def test_small_kernels_on_a_gpu_that_waits_for_launches_are_told(tmp_path: Path) -> None:
    job = one_rank(tmp_path, small_kernels(busy_us=1_500))
    assert accused(job) == ["tiny_kernels"]
    found = the("tiny_kernels", job)
    assert "300 kernels per step of 5 us on average" in found.statement
    assert quoted_numbers_are_given(found.statement, dict(found.numbers))


def test_small_kernels_on_a_busy_gpu_are_no_trouble(tmp_path: Path) -> None:
    events = gpu_steps(kernels=1_000, busy_us=9_500)
    assert accused(one_rank(tmp_path, events)) == []


def with_reads(dur: float, work_us: float) -> list[dict[str, Any]]:
    def read_loss(step: int, at: float) -> list[dict[str, Any]]:
        begin = at + 200 + work_us - dur
        return [
            host("aten::item", begin, dur + 10, cat="cpu_op"),
            launch(begin + 1, dur + 5, 7_000 + step, "cudaStreamSynchronize"),
        ]

    return gpu_steps(read_loss, busy_us=work_us)


def test_a_host_that_waits_and_leaves_the_gpu_idle_is_told(tmp_path: Path) -> None:
    found = the("host_syncs", one_rank(tmp_path, with_reads(3_000, work_us=6_000)))
    assert "1 time per step on rank 0 (mostly `aten::item`)" in found.statement
    assert [e.name for e in found.events][:1] == ["cudaStreamSynchronize"]
    assert quoted_numbers_are_given(found.statement, dict(found.numbers))


def test_a_host_that_waits_for_queued_work_is_no_trouble(tmp_path: Path) -> None:
    assert accused(one_rank(tmp_path, with_reads(5_000, work_us=9_790))) == []


def test_the_profilers_own_last_wait_is_not_counted(tmp_path: Path) -> None:
    events = [
        *gpu_steps(),
        launch(1_000 + 5 * STEP_US + 9_000, 900, 99_999, "cudaDeviceSynchronize"),
    ]
    (summary,) = one_rank(tmp_path, events).ranks
    assert summary.facts.syncs.count == 0


def test_pageable_copies_are_told_by_their_share_of_the_step(tmp_path: Path) -> None:
    def copying(step: int, at: float, dur: float = 800.0) -> list[dict[str, Any]]:
        return [
            copy(
                "Memcpy HtoD (Pageable -> Device)",
                at + 9_200,
                dur,
                correlation=8_000 + step,
                bytes=1 << 20,
            )
        ]

    found = the("pageable_copies", one_rank(tmp_path, gpu_steps(copying)))
    assert "take 0.8 ms of each 10 ms step" in found.statement
    assert "pin_memory" in found.fix
    small = one_rank(tmp_path, gpu_steps(lambda step, at: copying(step, at, 100.0)))
    assert accused(small) == []


def test_a_full_launch_queue_is_information(tmp_path: Path) -> None:
    events = [host(f"ProfilerStep#{n}", 1_000 + n * STEP_US, STEP_US) for n in range(3)]
    for i in range(1_200):
        events += [
            launch(1_000 + i, 0.9, i + 1),
            kernel(GEMM, 2_400 + i * 20, 20, correlation=i + 1),
        ]
    job = one_rank(tmp_path, events)
    assert accused(job) == []
    assert "up to 1200 kernels outstanding" in the("launch_queue_full", job).statement


def memory(at: float, total: float, **args: Any) -> dict[str, Any]:
    known = {
        "Device Type": 1,
        "Device Id": 0,
        "Addr": 1,
        "Bytes": 1,
        "Total Allocated": total,
        "Total Reserved": total,
    }
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 100,
        "tid": 1,
        "ts": at,
        "args": known | args,
    }


def test_memory_that_grows_with_every_step_is_told(tmp_path: Path) -> None:
    def growing(step: int, at: float) -> list[dict[str, Any]]:
        return [
            memory(at + 10, 1e9 + step * 4e6),
            memory(at + 5_000, 3e9),
            memory(at + 9_000, 1e9 + step * 4e6 + 4e6),
        ]

    found = the("memory_growth", one_rank(tmp_path, gpu_steps(growing)))
    assert (
        "grows by 4 MB per step: 20 MB more is held at the end of the trace, rising in 5 of 5 steps"
        in found.statement
    )
    assert quoted_numbers_are_given(found.statement, dict(found.numbers))


def test_memory_that_each_step_gives_back_is_no_growth(tmp_path: Path) -> None:
    def steady(step: int, at: float) -> list[dict[str, Any]]:
        return [memory(at + 10, 1e9), memory(at + 5_000, 3e9 + step * 1e6), memory(at + 9_000, 1e9)]

    assert accused(one_rank(tmp_path, gpu_steps(steady))) == []


@pytest.mark.parametrize(
    ("share", "severity"), [(0.95, "warning"), (0.98, "critical"), (0.80, None)]
)
def test_memory_near_the_limit_is_told(tmp_path: Path, share: float, severity: str | None) -> None:
    events = gpu_steps(lambda step, at: [memory(at + 10, share * 40e9)])
    found = [
        d.severity for d in diagnose(one_rank(tmp_path, events, GPU)) if d.rule == "memory_pressure"
    ]
    assert found == ([severity] if severity else [])


def test_calls_to_the_drivers_allocator_in_steady_steps_are_told(tmp_path: Path) -> None:
    always = one_rank(
        tmp_path, gpu_steps(lambda step, at: [launch(at + 50, 400, 50_000 + step, "cudaMalloc")])
    )
    assert "in 5 of 5 steps after the first" in the("allocator_calls", always).statement
    first = gpu_steps(
        lambda step, at: [launch(at + 50, 400, 50_000, "cudaMalloc")] if step == 0 else []
    )
    assert diagnose(one_rank(tmp_path, first)) == []


def test_code_that_is_compiled_again_and_again_is_told(tmp_path: Path) -> None:
    def versions(step: int, at: float) -> list[dict[str, Any]]:
        return [host(f"Torch-Compiled Region: 0/{step}", at + 100, 300, cat="cpu_op")]

    found = the("recompiles", one_rank(tmp_path, gpu_steps(versions)))
    assert "6 versions of compiled frame 0 run in one trace, up to version 5" in found.statement
    assert (found.severity, quoted_numbers_are_given(found.statement, dict(found.numbers))) == (
        "warning",
        True,
    )
    limit = the("recompiles", one_rank(tmp_path, gpu_steps(versions, steps=9)))
    assert limit.severity == "critical"


def test_one_version_of_compiled_code_is_how_it_should_be(tmp_path: Path) -> None:
    events = gpu_steps(
        lambda step, at: [host("Torch-Compiled Region: 0/1", at + 100, 300, cat="cpu_op")]
    )
    assert diagnose(one_rank(tmp_path, events)) == []


def test_unused_tensor_cores_are_information(tmp_path: Path) -> None:
    events = gpu_steps(lambda step, at: [host("aten::mm", at + 1, 5, cat="cpu_op")])
    job = one_rank(tmp_path, events, GPU)
    assert (accused(job), informed(job)) == ([], ["tensor_cores_unused"])
    used = [e | {"name": "sm80_xmma_gemm_f16f16"} if e["name"] == GEMM else e for e in events]
    assert diagnose(one_rank(tmp_path, used, GPU)) == []


def test_operations_that_are_many_and_small_are_told_without_a_gpu(tmp_path: Path) -> None:
    def many(dur: float) -> list[dict[str, Any]]:
        events = []
        for step in range(4):
            at = 1_000.0 + step * STEP_US
            events.append(host(f"ProfilerStep#{step}", at, STEP_US))
            events += [host("aten::add", at + 4 * i, dur, cat="cpu_op") for i in range(2_000)]
        return events

    job = one_rank(tmp_path, many(3.5))
    assert accused(job) == ["tiny_kernels"]
    assert quoted_numbers_are_given(
        the("tiny_kernels", job).statement, dict(the("tiny_kernels", job).numbers)
    )
    assert accused(one_rank(tmp_path, many(0.5))) == []


def test_values_read_one_by_one_are_told_without_a_gpu(tmp_path: Path) -> None:
    def reading(count: int) -> list[dict[str, Any]]:
        steps = [host(f"ProfilerStep#{n}", 1_000 + n * STEP_US, STEP_US) for n in range(4)]
        reads = [
            host("aten::item", 1_000 + n * STEP_US + 50 * i, 3, cat="cpu_op")
            for n in range(4)
            for i in range(count)
        ]
        return [*steps, *reads]

    assert accused(one_rank(tmp_path, reading(60))) == ["host_syncs"]
    assert accused(one_rank(tmp_path, reading(12))) == []


def test_overlapping_streams_and_empty_traces_do_no_harm(tmp_path: Path) -> None:
    assert diagnose(one_rank(tmp_path, [])) != []
    zero = [
        host("ProfilerStep#1", 10, 0),
        host("ProfilerStep#2", 10, 0),
        kernel(GEMM, 10, 0),
        kernel(GEMM, 10, 5, stream=9),
    ]
    assert accused(one_rank(tmp_path, zero)) == []


def test_facts_of_a_rank_fit_into_a_few_kilobytes(tmp_path: Path) -> None:
    import msgspec

    from faultline.analysis.traces.per_rank.rank_facts import rank_facts

    facts = rank_facts(read(tmp_path, gpu_steps(kernels=500), GPU))
    assert len(msgspec.json.encode(facts)) < 8_192


def test_code_that_torch_dynamo_has_given_up_is_told(tmp_path: Path) -> None:
    def looked_up(step: int, at: float) -> list[dict[str, Any]]:
        given_up = (
            [host("Torch-Compiled Region: 0/7", at + 100, 300, cat="cpu_op")] if step == 0 else []
        )
        return [host("TorchDynamo Cache Lookup", at + 50, 10, cat="cpu_op"), *given_up]

    found = the("recompiles", one_rank(tmp_path, gpu_steps(looked_up)))
    assert found.severity == "critical"
    assert "compiled frame 0 is at version 7, and torch._dynamo gives up at 8" in found.statement
    assert "5 steps look compiled code up and run without it" in found.statement
    assert quoted_numbers_are_given(found.statement, dict(found.numbers))
