"""Prefill and decode of inference servers, by the ranges of their sources and a real profile."""

from __future__ import annotations

import json
from typing import Any

import pytest

from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.columns.serving import ForwardPass, pass_of
from faultline.analysis.traces.per_rank.serving import rows
from faultline.analysis.traces.reading.kineto import read_trace, read_trace_stream
from tests.analysis.traces.written_traces import document, event
from tests.conftest import SHARED

VLLM = SHARED / "data/traces/tracelens/inference/vllm_decode_full/graph_execution.json.gz"


def trace_of(events: list[dict[str, Any]]) -> TraceColumns:
    return read_trace_stream("rank0.json", [json.dumps(document(events)).encode()])


@pytest.mark.parametrize(
    ("name", "expected", "phase"),
    [
        (
            "execute_context_2(1024)_generation_3(3)",
            ForwardPass("vLLM", 2, 1024, 3, 3),
            "mixed",
        ),
        (
            "execute_context_1(sq512sk512sqsq262144sqsk262144)_generation_0(sq0sk0sqsq0sqsk0)",
            ForwardPass("vLLM", 1, 512, 0, 0),
            "prefill",
        ),
        (
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",
            ForwardPass("vLLM", 0, 0, 32, 32),
            "decode",
        ),
        ("execute_context_0(0)_generation_0(0)", ForwardPass("vLLM", 0, 0, 0, 0), "idle"),
        ("step[EXTEND bs=2 toks=4096]", ForwardPass("SGLang", 2, 4096, 0, 0), "prefill"),
        (
            "step[EXTEND bs=2 toks=12 c_sqsq=80 c_sqsk=120 c_sk=20]",
            ForwardPass("SGLang", 2, 12, 0, 0),
            "prefill",
        ),
        ("step[DECODE bs=16]", ForwardPass("SGLang", 0, 0, 16, 16), "decode"),
        ("step[TARGET_VERIFY bs=4]", ForwardPass("SGLang", 0, 0, 4, None), "decode"),
        ("step[MIXED bs=3]", ForwardPass("SGLang", 3, None, 3, None), "mixed"),
        (
            "step[MIXED bs=3 c=1 g=2 c_sq=5 c_sk=8 g_sq=2 g_sk=20]",
            ForwardPass("SGLang", 1, 5, 2, 2),
            "mixed",
        ),
        (
            "[Executor] _forward_step 7: 1 ctx reqs, 128 ctx tokens, 2 gen reqs",
            ForwardPass("TensorRT-LLM", 1, 128, 2, 2),
            "mixed",
        ),
        (
            "[Executor] _forward_step 7: 1 ctx reqs, 0 gen reqs",
            ForwardPass("TensorRT-LLM", 1, None, 0, 0),
            "prefill",
        ),
        ("prefill[bs=2 tok=16384]", ForwardPass("ATOM", 2, 16384, 0, 0), "prefill"),
        ("decode[bs=8 tok=8]", ForwardPass("ATOM", 0, 0, 8, 8), "decode"),
    ],
)
def test_ranges_say_what_a_pass_works_on(name: str, expected: ForwardPass, phase: str) -> None:
    found = pass_of(name)
    assert found == expected
    assert found.phase == phase


@pytest.mark.parametrize(
    "name",
    [
        "execute_model",
        "step[DECODE]",
        "step[3]",
        "[Executor] _forward_step 7",
        "prefill",
        "execute_context_1(" + "9" * 40 + ")_generation_0(0)",
    ],
)
def test_other_ranges_are_no_passes(name: str) -> None:
    assert pass_of(name) is None


def kernel(name: str, ts: float, dur: float, correlation: int, tid: int = 7) -> dict[str, Any]:
    return event(name, ts, dur, cat="kernel", tid=tid, stream=tid, correlation=correlation)


def launch(ts: float, correlation: int) -> dict[str, Any]:
    return event("cudaLaunchKernel", ts, 1, cat="cuda_runtime", correlation=correlation)


def served() -> list[dict[str, Any]]:
    """A prompt of 512 tokens, then two steps that make four tokens each; the device lags behind."""
    return [
        event("step[EXTEND bs=1 toks=512]", 0, 20, cat="user_annotation"),
        launch(2, 1),
        launch(4, 2),
        event("step[DECODE bs=4]", 30, 10, cat="user_annotation"),
        launch(31, 3),
        event("step[DECODE bs=4]", 50, 12, cat="user_annotation"),
        launch(51, 4),
        launch(80, 5),
        kernel("gemm", 25, 100, 1),
        kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 115, 20, 2, tid=8),
        kernel("gemv", 140, 15, 3),
        kernel("gemv", 160, 15, 4),
        kernel("between", 180, 5, 5),
    ]


def test_work_belongs_to_the_pass_that_launched_it() -> None:
    prefill, decode = rows(trace_of(served()))
    assert (prefill["server"], prefill["phase"], prefill["passes"]) == ("SGLang", "prefill", 1)
    # 100 us and 20 us, of which 10 at once.
    assert prefill["device_ns"] == 110_000
    assert prefill["communication_ns"] == 20_000
    assert (prefill["prefill_tokens"], prefill["decode_tokens"]) == (512, 0)
    assert prefill["top_kernel"] == "gemm"
    assert (decode["passes"], decode["kernels"], decode["kernels_per_pass"]) == (2, 2, 1.0)
    assert (decode["pass_median_ns"], decode["pass_max_ns"]) == (11_000, 12_000)
    assert decode["decode_tokens"] == 8
    assert decode["device_ns_per_token"] == 30_000 / 8


def test_a_profile_of_the_device_alone_counts_by_its_own_ranges() -> None:
    events = []
    for found in served():
        if found["cat"] == "kernel":
            found["args"].pop("correlation")
            events.append(found)
    on_device = {"cat": "gpu_user_annotation", "tid": 7}
    events.append(event("step[EXTEND bs=1 toks=512]", 25, 112, **on_device))
    events.append(event("step[DECODE bs=4]", 140, 40, **on_device))
    prefill, decode = rows(trace_of(events))
    # The collective ran on another stream.
    assert (prefill["kernels"], decode["kernels"]) == (2, 2)


def test_a_phase_of_which_one_pass_does_not_say_its_tokens_has_none() -> None:
    events = [
        event("step[DECODE bs=4]", 0, 10, cat="user_annotation"),
        event("step[TARGET_VERIFY bs=4]", 20, 10, cat="user_annotation"),
    ]
    assert rows(trace_of(events))[0]["decode_tokens"] is None


def test_a_training_job_has_no_phases() -> None:
    assert rows(trace_of([event("ProfilerStep#3", 0, 10, cat="user_annotation")])) == []


@pytest.mark.skipif(not VLLM.is_file(), reason="the public data sets are not beside the project")
def test_a_real_profile_of_vllm_is_one_decode_pass_of_a_graph() -> None:
    (decode,) = rows(read_trace(VLLM))
    assert (decode["server"], decode["phase"], decode["decode_tokens"]) == ("vLLM", "decode", 32)
    assert decode["kernels"] == 425
    assert decode["top_kernel"] == "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1"
