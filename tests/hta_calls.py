"""Calls HTA's public analyses and writes what they give; runs in HTA's own environment.

python hta_calls.py '{"0": "rank0.json", ...}' FOLDER
"""

from __future__ import annotations

import inspect
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from hta.common.trace import Trace
from hta.trace_analysis import TraceAnalysis
from hta.trace_diff import LabeledTrace, TraceDiff

logging.disable(logging.CRITICAL)


def rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    text: str = frame.to_json(orient="records")
    found: list[dict[str, Any]] = json.loads(text)
    return found


def by_rank(frames: dict[int, pd.DataFrame]) -> list[dict[str, Any]]:
    return [{"rank": rank, **row} for rank, frame in frames.items() for row in rows(frame)]


def methods() -> list[str]:
    members = inspect.getmembers(TraceAnalysis, inspect.isfunction)
    return [name for name, _ in members if not name.startswith("_")]


def critical_path(hta: TraceAnalysis, rank: int) -> dict[str, float]:
    """What bounds the second step, by bound: us."""
    graph, _ = hta.critical_path_analysis(rank=rank, annotation="ProfilerStep", instance_id=1)
    spent = graph.get_critical_path_breakdown().groupby("bound_by")["duration"].sum()
    return {str(bound): float(us) for bound, us in spent.items() if us}


def differences(one: str, two: str) -> list[dict[str, Any]]:
    first, second = labelled("one", one), labelled("two", two)
    compared = TraceDiff.compare_traces(
        first,
        second,
        control_iteration=first.iterations(),
        test_iteration=second.iterations(),
    )
    return rows(compared.reset_index())


def labelled(name: str, file: str) -> LabeledTrace:
    return LabeledTrace(name, t=Trace(trace_files={0: file}, trace_dir="/"))


def main() -> None:
    files = {int(rank): path for rank, path in json.loads(sys.argv[1]).items()}
    folder, ranks = Path(sys.argv[2]), sorted(files)
    hta = TraceAnalysis(trace_files=dict(files), trace_dir="/", include_last_profiler_step=True)
    calls: dict[str, Callable[[], Any]] = {
        "get_temporal_breakdown": lambda: rows(hta.get_temporal_breakdown(visualize=False)),
        "get_comm_comp_overlap": lambda: rows(hta.get_comm_comp_overlap(visualize=False)),
        "get_idle_time_breakdown": lambda: rows(
            hta.get_idle_time_breakdown(ranks=ranks, visualize=False)[0]
        ),
        "get_gpu_kernel_breakdown": lambda: rows(
            hta.get_gpu_kernel_breakdown(visualize=False, num_kernels=10_000)[1]
        ),
        "get_cuda_kernel_launch_stats": lambda: by_rank(
            hta.get_cuda_kernel_launch_stats(ranks=ranks, visualize=False)
        ),
        "get_queue_length_time_series": lambda: by_rank(
            hta.get_queue_length_time_series(ranks=ranks)
        ),
        "get_memory_bw_time_series": lambda: by_rank(hta.get_memory_bw_time_series(ranks=ranks)),
        "get_profiler_steps": lambda: [int(step) for step in hta.get_profiler_steps()],
        "critical_path_analysis": lambda: critical_path(hta, ranks[0]),
        "compare_traces": lambda: differences(files[ranks[0]], files[ranks[-1]]),
    }
    said: dict[str, Any] = {"methods": methods()}
    for name, call in calls.items():
        try:
            said[name] = call()
        except Exception as error:  # noqa: BLE001
            said[name] = f"{type(error).__name__}: {error}"
    (folder / "hta.json").write_text(json.dumps(said))


if __name__ == "__main__":
    main()
