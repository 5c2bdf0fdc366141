from __future__ import annotations

from pathlib import Path

from faultline.analysis.traces.per_rank.profiler_overhead import capture, profiler_overhead, rows
from tests.analysis.traces.device_traces import GEMM, kernel, trace_of
from tests.analysis.traces.written_traces import event

STEPS = [event(f"ProfilerStep#{n}", 1_000 * n, 1_000, cat="user_annotation") for n in (1, 2)]


def test_overhead_outside_of_the_steps_does_not_count(tmp_path: Path) -> None:
    cost = [
        event("Buffer Flush", 900, 300, cat="overhead"),
        event("Buffer Flush", 5_000, 300, cat="overhead"),
    ]
    trace = trace_of(tmp_path, *STEPS, *cost)
    found = profiler_overhead(trace)
    assert (found.ns, found.share, found.flushes) == (200_000, 0.1, 1)
    assert rows(trace) == [{"overhead": "Buffer Flush", "count": 2, "in_steps_ns": 200_000}]


def test_a_capture_says_what_it_holds(tmp_path: Path) -> None:
    found = capture(trace_of(tmp_path, *STEPS, kernel(GEMM, 1_100, 5)))
    assert (found.events, found.device_events, found.steps, found.truncated) == (3, 1, 2, False)
    assert found.window_ns == 2_000_000


def test_a_capture_of_nothing_has_no_window(tmp_path: Path) -> None:
    found = capture(trace_of(tmp_path))
    assert (found.events, found.steps, found.window_ns) == (0, 0, 0)
