"""The user's annotations and their kernels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.per_rank.annotations import (
    REST,
    Side,
    annotation_breakdown,
    kernel_annotations,
    kernels_by_annotation,
    rows,
)
from tests.analysis.traces.device_traces import GEMM, kernel, launch, trace_of
from tests.analysis.traces.goldens import golden, sets_with, traces_of, views_of
from tests.analysis.traces.written_traces import event


def note(name: str, ts: float, dur: float, stream: int = 7) -> dict[str, Any]:
    """An annotation as the profiler copies it to a stream."""
    return event(name, ts, dur, cat="gpu_user_annotation", tid=stream) | {"pid": 0}


def host_note(name: str, ts: float, dur: float, tid: int = 1) -> dict[str, Any]:
    return event(name, ts, dur, cat="user_annotation", tid=tid) | {"pid": 100}


@pytest.mark.parametrize(("side", "analysis"), [("device", "gpu"), ("host", "cpu")])
@pytest.mark.parametrize("set_name", sets_with("cpu_user_annotation_breakdown"))
def test_the_breakdown_is_htas(set_name: str, side: Side, analysis: str) -> None:
    table = f"{analysis}_user_annotation_breakdown"
    said = golden(set_name, table) if set_name in sets_with(table) else []
    for rank, view in views_of(set_name).items():
        wanted = {row["name"]: row for row in said if row["rank"] == rank}
        found = {a.name: a.times for a in annotation_breakdown(view, side)}
        assert set(found) == set(wanted)
        for name, times in found.items():
            row = wanted[name]
            exact = [times.total / 1000, times.max / 1000, times.min / 1000]
            assert exact == [row["sum (us)"], row["max (us)"], row["min (us)"]]
            assert [times.mean / 1000, times.std / 1000] == pytest.approx(
                [row["mean (us)"], row["stddev"]]
            )


@pytest.mark.parametrize("set_name", sets_with("gpu_user_annotation_breakdown"))
def test_on_real_traces_each_kernel_has_the_shortest_annotation_of_its_own_stream(
    set_name: str,
) -> None:
    for trace in traces_of(set_name).values():
        linked = kernel_annotations(trace)
        assert linked.side == "device"
        marks = np.flatnonzero(trace.in_category("gpu_user_annotation"))
        for row, found in zip(
            linked.row[:500].tolist(), linked.annotation[:500].tolist(), strict=True
        ):
            assert found == _shortest_around(trace, marks, row)


def test_the_innermost_annotation_of_the_stream_wins_whatever_runs_beside_it(
    tmp_path: Path,
) -> None:
    trace = trace_of(
        tmp_path,
        note("step", 0, 100),
        note("forward", 10, 40),
        kernel(GEMM, 5, 5),
        kernel("in forward", 20, 10),
        kernel("same time, other stream", 20, 10, stream=8),
        kernel("after", 150, 10),
    )
    found = {k.name: (k.times.count, k.times.total) for k in kernels_by_annotation(trace)}
    assert found == {"step": (1, 5_000), "forward": (1, 10_000), "": (2, 20_000)}


def test_without_annotations_on_the_device_those_around_the_launch_count(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        host_note("forward", 0, 20),
        host_note("elsewhere", 0, 100, tid=2),
        launch(10, 2, 1),
        launch(30, 2, 2),
        kernel(GEMM, 50, 10, correlation=1),
        kernel(GEMM, 70, 10, correlation=2),
        kernel(GEMM, 90, 10),
    )
    linked = kernel_annotations(trace)
    assert linked.side == "host"
    assert [trace.name_of(a) if a >= 0 else None for a in linked.annotation.tolist()] == [
        "forward",
        None,
        None,
    ]
    names = {row["name"]: (row["kernels"], row.get("host_total_ns")) for row in rows(trace)}
    assert names == {"forward": (1, 20_000), "elsewhere": (0, 100_000), "": (2, None)}


def test_annotations_beyond_the_top_are_cut_but_for_those_to_keep(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, *(host_note(f"a{i}", 100 * i, 10 * (i + 1)) for i in range(5)))
    found = annotation_breakdown(trace, "host", top=1, keep=[re.compile("^a[01]$")])
    assert [a.name for a in found] == ["a4", "a1", "a0", REST]
    assert (found[3].times.count, found[3].times.total) == (2, 70_000)


def test_a_trace_without_annotations_has_none(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, kernel(GEMM, 0, 10))
    assert annotation_breakdown(trace) == ()
    assert kernel_annotations(trace).annotation.tolist() == [-1]
    empty = trace_of(tmp_path)
    assert kernels_by_annotation(empty) == ()
    assert rows(empty) == []


def _shortest_around(trace: TraceColumns, marks: np.ndarray[Any, Any], row: int) -> int:
    time, lane = int(trace.ts[row]), int(trace.lane[row])
    around = marks[
        (trace.lane[marks] == lane) & (trace.ts[marks] <= time) & (trace.end[marks] > time)
    ]
    return int(around[np.lexsort((-around, trace.dur[around]))[0]]) if len(around) else -1
