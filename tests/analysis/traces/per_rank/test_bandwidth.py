"""Copies and fills of the accelerator's memory."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faultline.analysis.traces.columns.device import Kind
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.per_rank.bandwidth import (
    BANDWIDTH,
    bandwidth_series,
    bandwidth_summary,
    copy_totals,
    direction_of,
    host_memory,
    rows,
)
from tests.analysis.traces.device_traces import COPY, GEMM, at, copy, kernel, trace_of
from tests.analysis.traces.goldens import golden, sets_with, views_of
from tests.analysis.traces.hta_view import hta_work

NO_LENGTH = (
    "HTA gives copies without length 1 us, and lets those of -1 us (of its rounding) "
    "count backwards"
)
DIFFERENT = {
    "mi300_qwen": NO_LENGTH,
    "mi300_resnet_ddp8_actckpt": NO_LENGTH,
    "nccl_parser_config": NO_LENGTH,
    "ns_resolution": NO_LENGTH,
    "param_resnet": NO_LENGTH,
}
Series = dict[str, dict[int, float]]


@pytest.mark.parametrize("set_name", sets_with("memory_bw_time_series"))
def test_the_series_is_htas_at_every_moment(set_name: str) -> None:
    said = golden(set_name, "memory_bw_time_series")
    views = views_of(set_name)
    origin = min(int(view.ts.min()) for view in views.values())
    same = []
    for rank, view in views.items():
        wanted: Series = defaultdict(dict)
        for point in said.get(str(rank), []):
            wanted[point["name"]][int(point["ts"])] = point["memory_bw_gbps"]
        assert _close(_hta_series(view, origin), wanted), "this is HTA's rule"
        same.append(_agrees(_our_series(view, origin), wanted))
    assert all(same) == (set_name not in DIFFERENT), DIFFERENT.get(set_name)
    if set_name in DIFFERENT:
        assert any(_without_length(view) for view in views.values())


@pytest.mark.parametrize("set_name", sets_with("memory_bw_summary"))
def test_the_largest_and_the_counts_are_htas_but_for_its_residues(set_name: str) -> None:
    said = {(row["rank"], row["name"]): row for row in golden(set_name, "memory_bw_summary")}
    for rank, view in views_of(set_name).items():
        series = bandwidth_series(view)
        for index, summary in enumerate(bandwidth_summary(series)):
            row = said.get((rank, summary.direction))
            mine = series.direction == index
            at_once = len(np.unique(series.time[mine])) < int(mine.sum())
            if row is None or set_name in DIFFERENT:
                assert row is not None or summary.points.count == 0
                continue
            if at_once:
                assert summary.points.max <= row["memory_bw_gbps|max"] + 1e-6, (
                    "HTA may begin before it ends"
                )
                continue
            residues = row["memory_bw_gbps|min"] < 1e-9
            assert (summary.points.count == row["memory_bw_gbps|count"]) != residues
            assert summary.points.max == pytest.approx(row["memory_bw_gbps|max"])
            if not residues:
                assert summary.points.mean == pytest.approx(row["memory_bw_gbps|mean"])
                assert summary.points.p50 == pytest.approx(row["memory_bw_gbps|50%"])


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD"),
        ("Memcpy DtoH (Device -> Pinned)", "Memcpy DtoH"),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD"),
        ("Memcpy PtoP (Device -> Device)", "Memcpy PtoP"),
        ("Memcpy HtoH (Pinned -> Pageable)", "Memcpy HtoH"),
        ("hipMemcpyDtoH", "Memcpy DtoH"),
        ("hipMemcpyHtoDAsync", "Memcpy HtoD"),
        ("CopyHostToDevice", "Memcpy HtoD"),
        ("MEMORY_COPY_DEVICE_TO_HOST", "Memcpy DtoH"),
        ("Memcpy M2D", "Memcpy HtoD"),
        ("zeCommandListAppendMemoryCopy(D2M)", "Memcpy DtoH"),
        ("Memset (Device)", "Memset"),
        ("FillBuffer", "Memset"),
        ("dma_request", "Memcpy unknown"),
    ],
)
def test_the_direction_is_read_from_every_profilers_names(name: str, direction: str) -> None:
    assert direction_of(name) == direction


def test_copies_at_once_add_up_and_the_series_returns_to_zero(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        copy(COPY, 0, 10, **{BANDWIDTH: 0.1, "bytes": 1000}),
        copy("Memcpy HtoD (Pinned -> Device)", 5, 10, stream=8, **{BANDWIDTH: 0.2, "bytes": 2000}),
        copy("Memset (Device)", 5, 10, **{BANDWIDTH: 7.0}),
    )
    series = bandwidth_series(trace)
    mine = series.direction == series.directions.index("Memcpy HtoD")
    assert ((series.time[mine] - at(0)) // 1000).tolist() == [0, 5, 10, 15]
    assert series.gbps[mine].tolist() == [0.1, 0.3, 0.2, 0.0]
    (copies, _) = bandwidth_summary(series)
    assert (copies.points.count, copies.points.max) == (3, 0.3)
    assert copies.mean_in_use == pytest.approx(0.2)


def test_a_bandwidth_that_is_missing_or_absurd_is_bytes_over_time(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        copy(COPY, 0, 10, bytes=50_000),
        copy(COPY, 20, 10, bytes=50_000, **{BANDWIDTH: 1e300}),
        copy(COPY, 40, 10),
        copy(COPY, 60, 0, bytes=8, **{BANDWIDTH: 3.0}),
    )
    assert bandwidth_series(trace).gbps.tolist() == [5.0, 0.0, 5.0, 0.0]
    (total,) = copy_totals(trace)
    assert (total.count, total.bytes, total.without_bytes, total.duration_ns) == (
        4,
        100_008,
        1,
        30_000,
    )


def test_pageable_and_pinned_memory_are_apart(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        copy(COPY, 0, 30, bytes=3_000),
        copy("Memcpy HtoD (Pinned -> Device)", 40, 10, bytes=10_000),
        copy("Memcpy DtoD (Device -> Device)", 60, 1, bytes=500),
        copy("Memset (Device)", 70, 1, bytes=70),
        kernel(GEMM, 80, 5),
    )
    first, second = copy_totals(trace)[:2]
    assert (first.direction, first.host, first.gbps) == ("Memcpy HtoD", "pageable", 0.1)
    assert (second.host, second.gbps) == ("pinned", 1.0)
    assert [row["host_memory"] for row in rows(trace)] == ["pageable", "pinned", "", ""]
    assert host_memory("Memcpy HtoD (Host -> Device)") == ""


def test_a_trace_without_copies_has_none(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, kernel(GEMM, 80, 5))
    assert copy_totals(trace) == ()
    assert rows(trace) == []
    assert bandwidth_summary(bandwidth_series(trace_of(tmp_path))) == ()


def _hta_series(view: TraceColumns, origin: int) -> Series:
    """HTA's rule: plus at the start, minus at the end, by the first 11 letters of the name; no
    length is 1 us."""
    work = hta_work(view)
    memory = work.row[work.kind == Kind.MEMORY]
    given = view.arguments.number(BANDWIDTH).at(memory, 0.0)
    changes: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for row, speed in zip(memory.tolist(), given.tolist(), strict=True):
        name = view.name_of(row)
        label = (
            "Memset"
            if name.startswith("Memset")
            else name[:11]
            if name.startswith("Memcpy")
            else "Memcpy Unknown"
        )
        start, length = (int(view.ts[row]) - origin) // 1000, int(view.dur[row]) // 1000
        changes[label] += [(start, speed), (start + (length or 1), -speed)]
    found: Series = defaultdict(dict)
    for label, points in changes.items():
        level = 0.0
        for time, change in sorted(points):
            level += change
            found[label][time] = level
    return found


def _without_length(view: TraceColumns) -> bool:
    work = hta_work(view)
    return bool((work.end <= work.start)[work.kind == Kind.MEMORY].any())


def _our_series(view: TraceColumns, origin: int) -> Series:
    series = bandwidth_series(view)
    found: Series = defaultdict(dict)
    for time, direction, level in zip(
        ((series.time - origin) // 1000).tolist(),
        series.direction.tolist(),
        series.gbps.tolist(),
        strict=True,
    ):
        found[series.directions[direction]][time] = level
    return found


def _close(one: Series, other: Series) -> bool:
    return set(one) == set(other) and all(
        set(one[name]) == set(other[name])
        and all(abs(level - other[name][time]) < 1e-6 for time, level in one[name].items())
        for name in one
    )


def _agrees(ours: Series, hta: Series) -> bool:
    """HTA has points that change nothing, where it knows no bandwidth."""
    for name, points in hta.items():
        mine: dict[int, Any] = ours.get(name, {})
        level = 0.0
        for time in sorted(set(points) | set(mine)):
            level = mine.get(time, level)
            if time not in points or abs(level - points[time]) > 1e-6:
                return False
    return True
