from __future__ import annotations

from pathlib import Path
from typing import Any

from faultline.analysis.traces.judgement.thresholds import MemoryRise
from faultline.analysis.traces.per_rank.allocations import allocations, rows
from tests.analysis.traces.device_traces import launch, trace_of
from tests.analysis.traces.written_traces import event

STEPS = [event(f"ProfilerStep#{n}", 1_000 * n, 1_000, cat="user_annotation") for n in (1, 2, 3)]


def memory(ts: float, size: int, **args: Any) -> dict[str, Any]:
    known = {"Addr": 1, "Bytes": size, "Device Type": 0, "Device Id": -1}
    return {
        "ph": "i",
        "name": "[memory]",
        "cat": "cpu_instant_event",
        "pid": 1,
        "tid": 1,
        "ts": ts,
        "args": known | args,
    }


def test_growth_is_the_lowest_total_of_each_step(tmp_path: Path) -> None:
    totals = [
        (1_100, 500),
        (1_200, 900),
        (1_900, 600),
        (2_100, 1_000),
        (2_900, 700),
        (3_100, 1_100),
        (3_900, 800),
    ]
    trace = trace_of(
        tmp_path, *STEPS, *(memory(ts, 1, **{"Total Allocated": total}) for ts, total in totals)
    )
    growth = allocations(trace).growth
    assert growth is not None
    assert growth.rise == MemoryRise(3, 500, 800, rising=2, slope_bytes=150)
    assert [r["lowest_bytes"] for r in rows(trace)] == [500, 700, 800]


def test_without_totals_growth_is_summed_from_the_blocks(tmp_path: Path) -> None:
    blocks = [(1_100, 400), (1_500, -300), (2_100, 400), (2_500, -300), (3_100, 400), (3_500, -300)]
    growth = allocations(
        trace_of(tmp_path, *STEPS, *(memory(ts, size) for ts, size in blocks))
    ).growth
    assert growth is not None
    assert (growth.rise.rising, growth.rise.slope_bytes) == (2, 100)


def test_calls_to_the_driver_count_from_the_second_step_on(tmp_path: Path) -> None:
    calls = [
        launch(1_100, 10, 1, "cudaMalloc"),
        launch(2_100, 20, 2, "cudaFree"),
        launch(3_100, 30, 3, "hipMalloc"),
    ]
    found = allocations(trace_of(tmp_path, *STEPS, *calls, launch(2_200, 10, 4, "cudaMallocHost")))
    assert (found.driver_calls, found.driver_steps, found.driver_ns) == (2, 2, 50_000)
