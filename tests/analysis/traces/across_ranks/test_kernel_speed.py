from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.traces.across_ranks.kernel_speed import (
    MIN_KERNELS,
    kernel_distribution,
    rank_speeds,
)
from tests.analysis.traces.across_ranks.written_jobs import kernel, summaries_of


def work(
    stretch: float = 1.0, *, kinds: int = 8, count: int = 6, only: int | None = None
) -> list[dict[str, Any]]:
    """Kernels of some kinds; all, or only one kind, take longer."""
    return [
        kernel(
            f"gemm_{k}",
            1_000.0 * (k * count + i),
            (50.0 + k) * (stretch if only in (None, k) else 1.0),
            0,
        )
        for k in range(kinds)
        for i in range(count)
    ]


def test_a_device_on_which_all_kernels_take_longer_is_slow(tmp_path: Path) -> None:
    speeds = rank_speeds(summaries_of(tmp_path, [work(), work(), work(1.25), work()]))
    assert [s.rank for s in speeds if s.slow] == [2]
    assert speeds[2].ratio == pytest.approx(1.25)
    assert speeds[2].slower_share == 1.0
    assert speeds[2].slowest[0].name == "gemm_7 [8,1,1] [128,1,1]"
    assert speeds[2].slowest[0].ratio == pytest.approx(1.25)
    assert speeds[0].ratio == pytest.approx(1.0)


@pytest.mark.parametrize(
    "own",
    [
        work(1.05),
        work(3.0, only=2),
        work(1.5, kinds=MIN_KERNELS - 1),
        work(1.5, count=2),
    ],
    ids=["by little", "one kernel only", "too few kernels", "too seldom"],
)
def test_a_device_is_not_slow_by_little_or_for_few_kernels(
    tmp_path: Path, own: list[dict[str, Any]]
) -> None:
    speeds = rank_speeds(summaries_of(tmp_path, [work(), own, work()]))
    assert [s.rank for s in speeds if s.slow] == []


def test_other_shapes_are_other_kernels(tmp_path: Path) -> None:
    other = [dict(e, args=e["args"] | {"grid": [9, 1, 1]}) for e in work(2.0)]
    assert rank_speeds(summaries_of(tmp_path, [work(), other])) == ()


def test_the_median_of_many_ranks_stands_for_the_others(tmp_path: Path) -> None:
    speeds = rank_speeds(summaries_of(tmp_path, [work(1.3 if r == 5 else 1.0) for r in range(17)]))
    assert [s.rank for s in speeds if s.slow] == [5]


def test_durations_are_told_per_kernel_and_rank(tmp_path: Path) -> None:
    rows = kernel_distribution(summaries_of(tmp_path, [work(), work(2.0)]), most=2)
    assert [(r["kernel"].split()[0], r["rank"]) for r in rows] == [
        ("gemm_7", 0),
        ("gemm_7", 1),
        ("gemm_6", 0),
        ("gemm_6", 1),
    ]
    assert rows[1] == {
        "kernel": "gemm_7 [8,1,1] [128,1,1]",
        "rank": 1,
        "count": 6,
        "total_ns": 6 * 114_000,
        "shortest_ns": 114_000,
        "median_ns": 114_000,
        "p95_ns": 114_000,
        "longest_ns": 114_000,
    }


def test_kernels_that_differ_only_far_behind_stay_two(tmp_path: Path) -> None:
    alike = "void elementwise<" + "at::native::" * 30
    own = [
        kernel(f"{alike}{end}>", 1_000.0 * i, 10.0 * (end + 1), 0)
        for end in (0, 1)
        for i in range(6)
    ]
    summaries = summaries_of(tmp_path, [own, own])
    kernels = summaries[0].kernels
    assert len(set(kernels.names)) == len(kernels) == 2
    rows = kernel_distribution(summaries)
    assert sorted(row["total_ns"] for row in rows) == [60_000, 60_000, 120_000, 120_000]
    assert kernels.names == summaries[1].kernels.names
    assert all(len(name) < 250 for name in kernels.names)
