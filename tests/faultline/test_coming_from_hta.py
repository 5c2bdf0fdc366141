"""The page "Coming from HTA", and HTA beside us on the same traces."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import faultline.traces as ft
from tests.analysis.traces.device_traces import COPY, GEMM, copy, kernel, launch
from tests.analysis.traces.goldens import TRACES, files_of
from tests.analysis.traces.written_traces import document, event, write_trace
from tests.conftest import SHARED
from tests.hta_python import hta_python, hta_says

PAGE = Path(__file__).parents[2] / "docs" / "trace-engine" / "coming-from-hta.md"
REDUCE = "ncclKernel_AllReduce_RING_LL_Sum_float"
STEPS = (1, 2, 3)
SETS = ("sampled_2rank", "dlrm_8rank")
"""Public sets in whole microseconds: HTA rounds others."""

Said = dict[str, Any]


def mapped() -> dict[str, str]:
    """Call of HTA -> what the page says is ours."""
    return dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", PAGE.read_text(), re.MULTILINE))


def small_job(folder: Path) -> dict[int, Path]:
    """Two ranks with products, copies and collectives in three steps; times in whole
    microseconds."""
    files = {}
    for rank in range(2):
        events = []
        for step in STEPS:
            at, number = 2_000 * step, 10 * step
            late = 40 * rank
            events += [
                event(f"ProfilerStep#{step}", at, 1_900, cat="user_annotation"),
                event("aten::addmm", at + 10, 300),
                launch(at + 20, 15, number),
                kernel(GEMM, at + 60, 400, correlation=number),
                launch(at + 50, 12, number + 1),
                kernel(GEMM, at + 470 + late, 200, correlation=number + 1),
                launch(at + 100, 10, number + 2, name="cudaMemcpyAsync"),
                copy(COPY, at + 900, 50, stream=20, correlation=number + 2, bytes=100_000),
                launch(at + 200, 10, number + 3),
                kernel(REDUCE, at + 600, 300 - late, stream=24, correlation=number + 3),
            ]
        path = folder / f"rank{rank}.json"
        files[rank] = write_trace(path, document(events, rank, 2))
    return files


class BothSides:
    """HTA's tables and our job, of the same traces."""

    def __init__(self, files: dict[int, Path], scratch: Path) -> None:
        self.hta: Said = hta_says(files, scratch)
        self.job = ft.open(*files.values())

    def table(self, call: str) -> Any:
        """What a call of HTA gave."""
        if isinstance(self.hta[call], str):
            pytest.skip(f"HTA fails on this trace: {self.hta[call]}")
        return self.hta[call]


@pytest.fixture(scope="module", params=["small", *SETS])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> BothSides:
    hta_python()
    scratch = tmp_path_factory.mktemp("hta")
    if request.param == "small":
        return BothSides(small_job(scratch), scratch)
    if not SHARED.is_dir():
        pytest.skip("the public traces are not beside this checkout")
    return BothSides({r: TRACES / file for r, file in files_of(request.param).items()}, scratch)


def test_the_page_names_every_method_of_hta_and_only_ours_that_exist(both: BothSides) -> None:
    assert set(both.hta["methods"]) <= set(mapped())


def test_what_the_page_sends_people_to_is_there() -> None:
    assert len(mapped()) > 20
    for ours in mapped().values():
        for name in re.findall(r"`job\.(?:plot\.)?(\w+)", ours):
            assert hasattr(ft.Job, name), name


def test_time_on_the_device(both: BothSides) -> None:
    ours = both.job.temporal().filter(part="all").sort("rank").rows(named=True)
    for their, our in zip(both.table("get_temporal_breakdown"), ours, strict=True):
        assert their["rank"] == our["rank"]
        assert their["idle_time(us)"] * 1000 == our["idle_ns"]
        assert their["compute_time(us)"] * 1000 == our["compute_ns"]
        assert their["kernel_time(us)"] * 1000 == our["kernel_ns"]
        assert their["non_compute_time_pctg"] == pytest.approx(our["non_compute_percent"], abs=0.01)


def test_overlap_of_communication(both: BothSides) -> None:
    ours = both.job.overlap().filter(part="all").sort("rank")
    theirs = [row["comp_comm_overlap_pctg"] for row in both.table("get_comm_comp_overlap")]
    assert ours["overlap_percent"].round(2).to_list() == pytest.approx(theirs, abs=0.011)


def test_idle_time_of_streams(both: BothSides) -> None:
    theirs: dict[Any, float] = defaultdict(float)
    for row in both.table("get_idle_time_breakdown"):
        theirs[row["rank"], row["stream"]] += 1000 * row["idle_time"]
    sums = both.job.idle().group_by("rank", "stream").agg(pl.col("idle_ns").sum())
    ours = {(rank, stream): idle for rank, stream, idle in sums.rows() if idle}
    assert ours == {stream: idle for stream, idle in theirs.items() if idle}


def test_why_streams_are_idle(tmp_path: Path) -> None:
    both = BothSides(small_job(tmp_path), tmp_path)
    theirs = {
        (row["rank"], row["stream"], row["idle_category"]): 1000 * row["idle_time"]
        for row in both.table("get_idle_time_breakdown")
        if row["idle_time"]
    }
    columns = ("rank", "stream", "category", "idle_ns")
    ours = {tuple(key): idle for *key, idle in both.job.idle().select(columns).rows()}
    assert ours == theirs


def test_kernels_by_name(both: BothSides) -> None:
    theirs = {
        (row["rank"], row["name"]): row["sum (us)"] * 1000
        for row in both.table("get_gpu_kernel_breakdown")
    }
    ours = {
        (row["rank"], row["name"]): row["total_ns"]
        for row in both.job.kernels().rows(named=True)
        if (row["rank"], row["name"]) in theirs
    }
    assert ours == theirs


def test_launches(both: BothSides) -> None:
    theirs = Counter(
        (row["rank"], row["cpu_duration"], row["gpu_duration"], row["launch_delay"])
        for row in both.table("get_cuda_kernel_launch_stats")
    )
    work = both.job.device_work().drop_nulls("launch")
    ours = Counter(
        work.select(
            "rank",
            pl.col("launch_duration_ns") / 1000,
            pl.col("duration_ns") / 1000,
            pl.col("delay_ns") / 1000,
        ).rows()
    )
    assert theirs - ours == Counter()


def test_launch_queues(both: BothSides) -> None:
    theirs: dict[Any, list[float]] = defaultdict(list)
    for row in both.table("get_queue_length_time_series"):
        theirs[row["rank"], row["stream"]].append(row["queue_length"])
    ours: dict[Any, list[int]] = defaultdict(list)
    for row in both.job.launch_queue_series().rows(named=True):
        ours[row["rank"], row["stream"]].append(row["queue_length"])
    assert {key: max(of) for key, of in ours.items()} == {k: max(of) for k, of in theirs.items()}
    assert {key: len(of) for key, of in ours.items()} == {k: len(of) for k, of in theirs.items()}


def test_profiler_steps(both: BothSides) -> None:
    assert sorted(set(both.job.steps()["step"])) == both.table("get_profiler_steps")


def test_critical_path(both: BothSides) -> None:
    theirs = both.table("critical_path_analysis")
    bounds = both.job.critical_path().filter(what="bound", rank=0)
    ours = dict(bounds.select("bound_by", pl.col("time_ns") / 1000).rows())
    assert max(ours, key=ours.__getitem__) == max(theirs, key=theirs.__getitem__)


def test_two_traces_name_by_name(both: BothSides) -> None:
    files = [rank.run.path for rank in both.job._ranks.ranks_in_memory.values()]
    diff = ft.open(files[0]).diff(ft.open(files[-1]))
    ours = dict(diff.select("name", "control_calls").rows())
    for row in both.table("compare_traces"):
        if row["name"] in ours and not row["name"].startswith("Memcpy"):
            assert ours[row["name"]] == row["one_counts"], row["name"]
