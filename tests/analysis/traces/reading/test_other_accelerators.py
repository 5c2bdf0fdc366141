"""Gaudi, Ascend and Intel accelerators, as public sources show their traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.traces.across_ranks.rank_summary import accelerator_of
from faultline.analysis.traces.columns.device import Kind, device_work, launched_by
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.columns.steps import steps_of
from faultline.analysis.traces.job.trace_readers import traces_in
from faultline.analysis.traces.reading.job_files import sort_job_files


def read(tmp_path: Path, content: Any, name: str = "trace_view.json") -> TraceColumns:
    path = tmp_path / name
    path.write_text(json.dumps(content))
    assert [f.kind for f in sort_job_files([path]).files] == ["profiler_trace"]
    return traces_in(path)[0]


def named(what: str, pid: int, name: str, tid: int = 0) -> dict[str, Any]:
    return {"name": f"{what}_name", "pid": pid, "tid": tid, "args": {"name": name}, "ph": "M"}


def slice_of(pid: int, tid: int, name: str, ts: float, dur: float, **more: Any) -> dict[str, Any]:
    """Ascend writes times as texts."""
    args = more.pop("args", {})
    start = f"{ts:.3f}"
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": start, "dur": dur,
            "args": args, **more}  # fmt: skip


@pytest.fixture
def ascend() -> list[dict[str, Any]]:
    events = [
        named("process", 1, "Python"),
        named("process", 2, "CANN"),
        named("process", 3, "Ascend Hardware"),
        named("thread", 3, "Stream 2", 10),
        named("process", 4, "Communication"),
        named("thread", 4, "Group 0 Communication", 20),
        named("thread", 4, "Plane 0", 21),
        named("process", 5, "Overlap Analysis"),
    ]
    for step in (6, 7):
        at = 1_000.0 * step
        task = {"Task Type": "AI_CORE", "connection_id": step}
        waits = {"Task Type": "EVENT_WAIT"}
        events += [
            slice_of(1, 1, f"ProfilerStep#{step}", at, 900),
            slice_of(2, 1, "Node@launch", at + 5, 2, args={"connection_id": step}),
            slice_of(3, 10, "aclnnMatmul_MatMulV2_MatMulV2", at + 10, 100, args=task),
            slice_of(3, 10, "EVENT_WAIT", at + 110, 50, args=waits),
            slice_of(3, 10, "MEMCPY_ASYNC", at + 160, 20, args={"Task Type": "MEMCPY_ASYNC"}),
            slice_of(4, 20, f"hcom_allReduce__503_{step}_1", at + 200, 80),
            slice_of(4, 21, "Notify_Wait", at + 200, 80),
            slice_of(5, 1, "Computing", at + 10, 100),
        ]
    return events


def test_an_ascend_trace_has_kernels_copies_and_collectives(
    tmp_path: Path, ascend: list[dict[str, Any]]
) -> None:
    trace = read(tmp_path, ascend)
    assert trace.format == "Ascend trace (trace_view.json)"
    work = device_work(trace)
    assert work.kind.tolist() == [Kind.COMPUTATION, Kind.MEMORY, Kind.COMMUNICATION] * 2
    assert (work.end - work.start).tolist() == [100_000, 20_000, 80_000] * 2
    assert trace.name_of(int(launched_by(trace)[work.row[0]])) == "Node@launch"
    assert trace.stream[work.row[:2]].tolist() == [2, 2]
    assert steps_of(trace).number.tolist() == [6, 7]
    assert accelerator_of(trace).vendor == "npu"


def test_an_ascend_trace_whose_framework_has_categories_keeps_them(
    tmp_path: Path, ascend: list[dict[str, Any]]
) -> None:
    for found in ascend:
        if found["pid"] == 1 and found["ph"] == "X":
            found["cat"] = "user_annotation"
    trace = read(tmp_path, ascend)
    assert len(steps_of(trace)) == 2
    assert len(device_work(trace)) == 6


@pytest.mark.parametrize(
    ("runtime", "call", "device", "vendor"),
    [
        ("privateuse1_runtime", "Launch", "Gaudi2 HL-225", "hpu"),
        ("xpu_runtime", "urEnqueueKernelLaunch", "Intel(R) Data Center GPU Max 1550", "xpu"),
    ],
)
def test_kernels_of_plugins_are_linked_to_their_runtime(
    tmp_path: Path, runtime: str, call: str, device: str, vendor: str
) -> None:
    def event(cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
        return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur,
                "args": args}  # fmt: skip

    events = [
        event(runtime, call, 1, 2, correlation=5),
        event("kernel", "gemm", 10, 30, correlation=5, stream=6_000, device=0),
        event("kernel", "DmaMemcpy", 45, 5, correlation=5, stream=4_000, device=0),
    ]
    content = {"deviceProperties": [{"id": 0, "name": device}], "traceEvents": events}
    trace = read(tmp_path, content)
    work = device_work(trace)
    assert work.kind.tolist() == [Kind.COMPUTATION, Kind.MEMORY]
    assert [trace.name_of(row) for row in launched_by(trace)[work.row].tolist()] == [call, call]
    assert accelerator_of(trace).vendor == vendor
