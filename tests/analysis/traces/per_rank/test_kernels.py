"""Kernels by kind and by name."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faultline.analysis.traces.columns.device import Kind
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.per_rank.kernels import (
    KINDS,
    REST,
    kernel_breakdown,
    kernel_distribution,
    kernel_types,
    kind_times,
    rows,
)
from tests.analysis.traces.device_traces import COPY, GEMM, NCCL, copy, kernel, launch, trace_of
from tests.analysis.traces.goldens import golden, sets_with, views_of
from tests.analysis.traces.hta_view import hta_work

BELOW_NOTHING = {
    ("mi300_resnet_ddp8_actckpt", "gpu_kernel_breakdown"),
    ("mi300_resnet_ddp8_actckpt", "gpu_kernel_breakdown_nomem_n3"),
    ("mtia_inference", "gpu_kernel_breakdown"),
}
"""Where kernels that HTA's rounding makes -1 us long disturb its sums, so that not even its own
rows give them."""
DIFFERENT = {
    "mi300_torch_compile": "HTA counts the host's Triton operators as kernels",
    "triton_example": "HTA counts the host's Triton operators as kernels",
    "mtia_inference": "HTA takes no `pe_exe` for computation",
    "mtia_single_rank": "HTA leaves out copies whose stream is -1",
    "mi300_resnet_ddp8_actckpt": "kernels of -1 us count",
}


@pytest.mark.parametrize("set_name", sets_with("gpu_kernel_breakdown"))
def test_kinds_and_their_overlaps_are_htas(set_name: str) -> None:
    for analysis, kinds in (
        ("gpu_kernel_breakdown", tuple(KINDS)),
        ("gpu_kernel_breakdown_nomem_n3", tuple(KINDS)[:2]),
    ):
        said = {
            row["kernel_type"].lower(): row["sum"]
            for row in golden(set_name, analysis)[0]
            if row["sum"]
        }
        ours: dict[str, int] = defaultdict(int)
        hta: dict[str, int] = defaultdict(int)
        for view in views_of(set_name).values():
            for found in kernel_types(view) if len(kinds) == 3 else ():
                ours[found.label] += found.total_ns // 1000
            for found in kind_times(hta_work(view), kinds):
                hta[found.label] += found.total_ns // 1000
        exact = (set_name, analysis) not in BELOW_NOTHING
        assert (hta == said) == exact, "with HTA's rows and types the times are HTA's"
        if len(kinds) == 3:
            assert (ours == said) == (set_name not in DIFFERENT), DIFFERENT.get(set_name)


@pytest.mark.parametrize("set_name", sets_with("gpu_kernel_breakdown"))
def test_kernels_are_htas_where_it_cuts_nothing_and_its_rule_is_known_where_it_does(
    set_name: str,
) -> None:
    said = golden(set_name, "gpu_kernel_breakdown")[1]
    for rank, view in views_of(set_name).items():
        for kind, label in KINDS.items():
            wanted = {
                row["name"]: row
                for row in said
                if row["rank"] == rank and row["kernel_type"] == label.upper()
            }
            by_name = _lengths_by_name(view, kind)
            if len(by_name) > 10:
                assert {name: row["sum (us)"] for name, row in wanted.items()} == pytest.approx(
                    _hta_cut(by_name)
                )
                assert all(
                    r["max (us)"] == r["min (us)"] == r["mean (us)"]
                    for n, r in wanted.items()
                    if n != REST
                )
                continue
            ours = {k.name: k.times for k in kernel_breakdown(view) if k.kind == label}
            assert set(wanted) == set(by_name)
            assert (set(ours) == set(wanted)) or set_name in DIFFERENT
            for name in ours if set_name not in DIFFERENT else ():
                row, times = wanted[name], ours[name]
                assert [row["sum (us)"], row["max (us)"], row["min (us)"]] == [
                    times.total / 1000,
                    times.max / 1000,
                    times.min / 1000,
                ]
                assert [row["mean (us)"], row["stddev"]] == pytest.approx(
                    [times.mean / 1000, times.std / 1000]
                )


def test_the_statistics_are_of_each_kernels_length(tmp_path: Path) -> None:
    lengths = [5, 10, 15, 20, 100]
    trace = trace_of(
        tmp_path, *(kernel(GEMM, 200 * i, n) for i, n in enumerate(lengths)), kernel(NCCL, 2000, 50)
    )
    gemm, nccl = kernel_breakdown(trace)
    assert (gemm.name, gemm.kind, gemm.times.count, gemm.times.total) == (
        GEMM,
        "computation",
        5,
        150_000,
    )
    assert (gemm.times.min, gemm.times.p50, gemm.times.max, gemm.times.mean) == (
        5_000,
        15_000,
        100_000,
        30_000,
    )
    assert gemm.times.p90 == pytest.approx(np.quantile(lengths, 0.9) * 1000)
    assert gemm.times.std == pytest.approx(np.std(lengths, ddof=1) * 1000)
    assert (nccl.kind, nccl.percent) == ("communication", 25.0)


def test_what_is_cut_stands_in_one_entry_with_its_own_statistics(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, *(kernel(f"k{i}", 100 * i, 10 * (i + 1)) for i in range(6)))
    kept = kernel_breakdown(trace, top=2)
    assert [k.name for k in kept] == ["k5", "k4", REST]
    assert (kept[2].times.count, kept[2].times.max, kept[2].times.total) == (4, 40_000, 100_000)
    assert sum(k.percent for k in kept) == pytest.approx(100)
    assert [k.name for k in kernel_breakdown(trace, share=0.5)] == ["k5", "k4", REST]


def test_kinds_that_run_together_have_a_time_of_their_own(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        kernel(GEMM, 0, 10),
        kernel(NCCL, 5, 10, stream=8),
        copy(COPY, 8, 4, stream=9),
        kernel(GEMM, 30, 5),
    )
    assert {k.label: k.total_ns for k in kernel_types(trace)} == {
        "computation": 10_000,
        "computation overlapping communication": 3_000,
        "computation overlapping communication overlapping memory": 2_000,
        "communication overlapping memory": 2_000,
        "communication": 3_000,
    }


def test_a_kernel_that_is_slow_on_one_rank_is_seen_across_ranks(tmp_path: Path) -> None:
    per_rank = {
        r: kernel_breakdown(trace_of(tmp_path, kernel(GEMM, 0, 30 if r == 2 else 10)))
        for r in range(4)
    }
    (spread,) = kernel_distribution(per_rank)
    assert (spread.ranks, spread.slowest_rank, spread.slowdown) == (4, 2, 3.0)
    assert spread.total_ns == 60_000


def test_a_trace_without_kernels_has_none(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, launch(0, 1, 1))
    assert kernel_breakdown(trace, top=3) == ()
    assert kernel_types(trace) == ()
    assert rows(trace) == []


def _lengths_by_name(view: TraceColumns, kind: Kind) -> dict[str, list[int]]:
    work = hta_work(view)
    found: dict[str, list[int]] = defaultdict(list)
    for row in work.row[work.kind == kind].tolist():
        found[view.name_of(row)].append(int(view.dur[row]) // 1000)
    return found


def _hta_cut(by_name: dict[str, list[int]], most: int = 10, ratio: float = 0.8) -> dict[str, Any]:
    """HTA's cut: names beyond the 0.8 quantile of the running sum, or beyond the tenth, are
    "others"."""
    sums = sorted(((sum(lengths), name) for name, lengths in by_name.items()), key=lambda s: -s[0])
    running = np.cumsum([total for total, _ in sums])
    limit = np.quantile(running, ratio)
    kept: dict[str, Any] = {}
    for place, (total, name) in enumerate(sums):
        label = REST if running[place] > limit or place >= most else name
        kept[label] = kept.get(label, 0) + total
    return kept
