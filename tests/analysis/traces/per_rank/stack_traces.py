"""Small traces of calls, launches and kernels for the tests of what is built on call stacks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.written_traces import document

Event = dict[str, Any]


def call(
    name: str,
    ts: float,
    dur: float,
    *,
    cat: str = "cpu_op",
    tid: int = 1,
    args: Event | None = None,
) -> Event:
    """A call on a thread of the host, in microseconds."""
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 1,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args or {},
    }


def step(number: int, ts: float, dur: float) -> Event:
    """The profiler's annotation of a step."""
    return call(f"ProfilerStep#{number}", ts, dur, cat="user_annotation")


def launch(
    correlation: int, ts: float, dur: float = 2, *, name: str = "cudaLaunchKernel", tid: int = 1
) -> Event:
    """A call of the runtime that launches the kernels of its correlation."""
    return call(name, ts, dur, cat="cuda_runtime", tid=tid, args={"correlation": correlation})


def kernel(
    name: str, correlation: int, ts: float, dur: float, *, stream: int = 7, cat: str = "kernel"
) -> Event:
    """Work on a stream."""
    args = {"stream": stream, "correlation": correlation, "device": 0}
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 0,
        "tid": stream,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def autograd(number: int, thread: int = 0) -> Event:
    """Arguments of an operator: its sequence number, and the forward thread where it is of the
    backward pass."""
    return {"Sequence number": number, "Fwd thread id": thread}


def trace_of(folder: Path, events: list[Event], name: str = "trace.json") -> TraceColumns:
    """The events as a trace that was written and read."""
    path = folder / name
    path.write_text(json.dumps(document(events)))
    return read_trace(path)


def hta_rows(trace: TraceColumns) -> TraceColumns:
    """With the mistakes of HTA's call graph: synchronizations are kernels, and what runs on stream
    0 is left out."""
    category = trace.category.copy()
    first = len(trace.categories)
    category[trace.in_category("cuda_sync") & (trace.stream >= 0) & (trace.correlation > 0)] = first
    category[trace.stream == 0] = first + 1
    return replace(
        trace, category=category, categories=(*trace.categories, "kernel", "gpu_user_annotation")
    )
