"""Whatever a trace holds, what is built on call stacks answers, and its numbers hold together."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as some

from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.comparison.trace_diff import compared, diff_rows, side_of
from faultline.analysis.traces.comparison.trace_regressions import regression_rows
from faultline.analysis.traces.per_rank import call_stacks as stacks_of
from faultline.analysis.traces.per_rank import (
    counters,
    memory,
    operator_delays,
    operators,
    sequences,
)
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.written_traces import document

CATEGORIES = (
    "cpu_op",
    "kernel",
    "gpu_memcpy",
    "cuda_runtime",
    "user_annotation",
    "python_function",
    "gpu_user_annotation",
    "cuda_sync",
    "cuda_profiler_range",
    "Trace",
    "",
)
NAMES = (
    "aten::mm",
    "ProfilerStep#1",
    "ProfilerStep#2",
    "autograd::engine::evaluate_function: X",
    "cudaLaunchKernel",
    "cudaGraphLaunch",
    "ncclDevKernel_AllReduce",
    "## backward ##",
    "a<b>(c)\u0000\n",
    "",
)
TIMES = some.one_of(
    some.integers(0, 60), some.integers(-10, 2**53), some.floats(0, 50, allow_nan=False)
)
SMALL = some.integers(-2, 6)


@some.composite
def an_event(draw: some.DrawFn) -> dict[str, Any]:
    """An interval or an allocator event with values as odd as files have them."""
    keys = ("correlation", "External id", "stream", "Sequence number", "Fwd thread id")
    args: dict[str, Any] = {key: draw(SMALL) for key in keys if draw(some.booleans())}
    if draw(some.integers(0, 5)) == 0:
        sizes = {
            key: draw(some.integers(-(2**62), 2**62))
            for key in ("Bytes", "Total Allocated")
            if draw(some.booleans())
        }
        return {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": draw(TIMES)} | {
            "args": {
                "Addr": draw(SMALL),
                "Device Type": draw(some.integers(0, 2)),
                "Device Id": 0,
                **sizes,
            }
        }
    return {
        "ph": "X",
        "cat": draw(some.sampled_from(CATEGORIES)),
        "name": draw(some.sampled_from(NAMES)),
        "pid": 1,
        "tid": draw(some.integers(1, 3)),
        "ts": draw(TIMES),
        "dur": draw(TIMES),
        "args": args,
    }


def _read(events: list[dict[str, Any]]) -> TraceColumns:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.json"
        path.write_text(json.dumps(document(events)))
        return read_trace(path)


@settings(max_examples=60, deadline=None)
@given(some.lists(an_event(), max_size=30))
def test_every_analysis_answers_and_its_numbers_hold_together(events: list[dict[str, Any]]) -> None:
    trace = _read(events)
    stacks = stacks_of.call_stacks(trace)
    _is_a_forest(stacks)
    assert int(stacks.num_kernels[stacks.parent < 0].sum()) == int(trace.on_device.sum())
    assert int(stacks.kernel_sum_ns[stacks.parent < 0].sum()) == int(
        trace.dur[trace.on_device].sum()
    )
    assert (stacks.self_ns >= 0).all()
    folded = stacks_of.folded_stacks(stacks)
    assert sum(f.device_ns for f in folded) == int(trace.dur[trace.on_device].sum())
    for module in (stacks_of, operators, operator_delays, sequences, counters, memory):
        json.dumps(module.rows(trace), allow_nan=False)
    side = side_of(trace)
    diff = compared(side, side)
    assert all(d.change == "unchanged" and d.growth_ns == 0 for d in diff.differences)
    json.dumps([diff_rows(diff), regression_rows(diff)], allow_nan=False)


def _is_a_forest(stacks: stacks_of.CallStacks) -> None:
    parent, depth = stacks.parent, stacks.depth
    child = np.flatnonzero(parent >= 0)
    assert (depth[child] == depth[parent[child]] + 1).all()
    assert sorted(stacks.order.tolist()) == np.flatnonzero(stacks.inside).tolist()
    place = np.empty(len(parent), dtype=np.int64)
    place[stacks.order] = np.arange(len(stacks.order))
    seen = [stacks.path_to_root(row) for row in range(len(parent))]
    assert all(len(path) == len(set(path)) for path in seen)
    roots = [row for row in stacks.order.tolist() if parent[row] < 0]
    assert sum(len(stacks.descendants(row)) for row in roots) == len(stacks.order)
