from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.costs.call import accelerator_named
from faultline.analysis.traces.per_rank.roofline import roofline, rows
from faultline.analysis.traces.per_rank.utilization import utilization
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.device_traces import kernel, launch
from tests.analysis.traces.written_traces import document, event, write_trace
from tests.conftest import SHARED

TRACELENS = SHARED / "data" / "traces" / "tracelens"
BERT = "gaunernst_bert-small-uncased__1016001"
REPORTS = [
    (maker, table)
    for maker in ("h100", "mi300")
    for table in ("GEMM", "SDPA_fwd", "BinaryElementwise")
]
MIB = 1 << 20
H100 = {"deviceProperties": [{"name": "NVIDIA H100 80GB HBM3", "computeMajor": 9}]}
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64"


def mm(ts: float, m: int, k: int, n: int, correlation: int, name: str = "aten::mm") -> list[Any]:
    """An operator of 20 us with its launch."""
    call = event(name, ts, 20)
    call["args"] = {
        "Input Dims": [[m, k], [k, n]],
        "Input type": ["c10::BFloat16", "c10::BFloat16"],
        "Concrete Inputs": ["", ""],
    }
    return [call, launch(ts + 5, 5, correlation) | {"pid": 1}]


def trace_of(folder: Path, *events: dict[str, Any], header: dict[str, Any]) -> TraceColumns:
    written = document(list(events), world=1) | header
    return read_trace(write_trace(folder / "rank0.json", written))


def test_an_operator_is_held_against_what_the_device_can_do(tmp_path: Path) -> None:
    """4096 cubed in 200 us on an H100: 137.4 GFLOP take 138.9 us at 989.4 TFLOP/s."""
    step = event("ProfilerStep#1", 0, 1_000, cat="user_annotation")
    work = kernel(GEMM, 100, 200, correlation=1)
    [found] = roofline(trace_of(tmp_path, step, *mm(10, 4096, 4096, 4096, 1), work, header=H100))
    assert (found.calls, found.kernels, found.time_ns, found.kernel) == (1, 1, 200_000, GEMM)
    assert found.bound == "compute"
    assert found.tflops_per_s == pytest.approx(2 * 4096**3 / 200e-6 / 1e12)
    assert found.roofline_percent == pytest.approx(100 * 138.91 / 200, rel=1e-3)
    assert found.lost_ns == pytest.approx(200_000 - 138_911, abs=20)


def test_thin_products_are_bound_by_memory(tmp_path: Path) -> None:
    work = kernel(GEMM, 100, 50, correlation=1)
    [found] = roofline(trace_of(tmp_path, *mm(10, 1, 8192, 8192, 1), work, header=H100))
    assert found.bound == "memory"
    assert found.floor_ns == pytest.approx(2 * (8192 + 8192**2 + 8192) / 3.35e12 * 1e9)


def test_what_can_be_gained_comes_first(tmp_path: Path) -> None:
    calls = [*mm(10, 4096, 4096, 4096, 1), *mm(50, 512, 512, 512, 2)]
    work = [kernel(GEMM, 100, 140, correlation=1), kernel(GEMM, 300, 100, correlation=2)]
    found = roofline(trace_of(tmp_path, *calls, *work, header=H100))
    assert [o.shapes for o in found] == ["[[512,512],[512,512]]", "[[4096,4096],[4096,4096]]"]


def test_of_nested_operators_the_outermost_counts(tmp_path: Path) -> None:
    outer = event("aten::convolution", 5, 40)
    outer["args"] = {
        "Input Dims": [[1, 8, 10, 10], [8, 8, 1, 1], [], [], [], [], [], [], []],
        "Input type": ["float", "float"],
        "Concrete Inputs": [*("", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1")],
    }
    work = kernel(GEMM, 100, 50, correlation=1)
    found = roofline(trace_of(tmp_path, outer, *mm(10, 100, 8, 8, 1), work, header=H100))
    assert [o.name for o in found] == ["aten::convolution"]


def test_copies_from_the_host_are_not_the_operators_work(tmp_path: Path) -> None:
    call = event("aten::copy_", 10, 20)
    call["args"] = {"Input Dims": [[1000], [1000], []], "Input type": ["float", "float"]}
    copy = kernel("Memcpy HtoD (Pageable -> Device)", 100, 900, cat="gpu_memcpy", correlation=1)
    found = roofline(trace_of(tmp_path, call, launch(15, 5, 1) | {"pid": 1}, copy, header=H100))
    assert found == []


def test_an_unknown_device_leaves_the_peaks_open(tmp_path: Path) -> None:
    work = kernel(GEMM, 100, 50, correlation=1)
    [row] = rows(trace_of(tmp_path, *mm(10, 64, 64, 64, 1), work, header={}))
    assert row["tflops_per_s"] > 0
    assert (row["bound"], row["roofline_percent"], row["lost_ns"]) == ("", None, None)


def test_mfu_is_the_share_of_a_step_that_its_products_take_at_the_peak(tmp_path: Path) -> None:
    steps = [event(f"ProfilerStep#{n}", 1_000 * n, 1_000, cat="user_annotation") for n in range(2)]
    calls = [*mm(10, 4096, 4096, 4096, 1), *mm(1_010, 4096, 4096, 4096, 2)]
    # The second step's kernel runs on after it.
    work = [kernel(GEMM, 100, 200, correlation=1), kernel(GEMM, 1_900, 200, correlation=2)]
    found = utilization(trace_of(tmp_path, *steps, *calls, *work, header=H100))
    assert [u.part for u in found] == ["all", "step 0", "step 1"]
    for part in found[1:]:
        assert part.flops == part.matrix_flops == 2 * 4096**3
        assert part.mfu_percent == pytest.approx(13.89, abs=0.01)
        assert part.costed_percent == 100


def test_mfu_is_not_stated_where_a_product_has_no_cost(tmp_path: Path) -> None:
    unknown = event("aten::convolution", 40, 20)
    unknown["args"] = {"Input Dims": [[1, 8, 10, 10], [8, 8, 1, 1]], "Input type": ["float"]}
    events = [
        *mm(10, 64, 64, 64, 1),
        unknown,
        launch(45, 5, 2) | {"pid": 1},
        kernel(GEMM, 100, 50, correlation=1),
        kernel("implicit_convolve_sgemm", 160, 50, correlation=2),
    ]
    found = utilization(trace_of(tmp_path, *events, header=H100))
    assert (found[0].without_cost, found[0].mfu_percent, found[0].costed_percent) == (1, None, 50)


def test_mfu_is_not_stated_where_products_run_that_no_operator_asked_for(tmp_path: Path) -> None:
    """The kernels of a replayed graph."""
    known = [*mm(10, 4096, 4096, 4096, 1), kernel(GEMM, 100, 200, correlation=1)]
    replayed = [event("cudaGraphLaunch", 50, 5, cat="cuda_runtime", correlation=2)]
    replayed += [kernel(GEMM, 400, 100, correlation=2), kernel(GEMM, 600, 100)]
    found = utilization(trace_of(tmp_path, *known, *replayed, header=H100))
    assert (found[0].unknown_ns, found[0].mfu_percent, found[0].costed_percent) == (
        200_000, None, 50,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "memory_gb", "tb_s", "bf16"),
    [
        ("NVIDIA H100 80GB HBM3", 85.0, 3.35, 989.4),
        ("NVIDIA H100 PCIe", 85.0, 2.04, 756),
        ("NVIDIA A100-SXM4-80GB", 85.0, 2.039, 312),
        ("NVIDIA A100-SXM4-40GB", 42.0, 1.555, 312),
        ("NVIDIA A100-PG509-200", 42.5, 1.555, 312),
        ("NVIDIA A100-SXM4-80GB", None, 2.039, 312),
        ("NVIDIA H200", 150.0, 4.8, 989.4),
        ("NVIDIA GH200 480GB", 102.0, 4.0, 989.4),
        ("NVIDIA H20", 102.0, 4.0, 148),
        ("NVIDIA L4", 24.0, 0.3, 121),
        ("NVIDIA L40S", 48.0, 0.864, 362),
        ("AMD Instinct MI300X VF", 206.0, 5.3, 1307.4),
    ],
)
def test_devices_are_known_by_the_names_that_drivers_give(
    name: str, memory_gb: float | None, tb_s: float, bf16: float
) -> None:
    found = accelerator_named(name, memory_gb)
    assert found is not None
    assert (found.tb_s, found.tflops["bf16"]) == (tb_s, bf16)


@pytest.mark.parametrize("name", ["", "Quadro P400", "Tesla P100-PCIE-16GB", "ARTEMIS"])
def test_of_other_devices_nothing_is_claimed(name: str) -> None:
    assert accelerator_named(name, 16.0) is None


def tracelens_rows(maker: str, table: str) -> Iterator[dict[str, str]]:
    folder = TRACELENS / maker / f"{BERT}_perf_report_csvs"
    with (folder / f"{table}.csv").open(newline="") as file:
        yield from csv.DictReader(file)


@pytest.mark.skipif(not TRACELENS.is_dir(), reason="TraceLens's tables lie beside the project")
@pytest.mark.parametrize(("maker", "table"), REPORTS)
def test_flops_bytes_and_times_are_tracelens(maker: str, table: str) -> None:
    """Within 1 %, operator by operator: its "MB" are MiB, its times microseconds."""
    trace = read_trace(TRACELENS / maker / f"{BERT}.json.gz")
    ours = {(o.name, o.shapes): o for o in roofline(trace)}
    theirs = list(tracelens_rows(maker, table))
    assert theirs
    for row in theirs:
        found = ours[row["name"], row["Input Dims_first"].replace(" ", "")]
        assert found.calls == int(row["name_count"])
        assert found.cost.flops == pytest.approx(1e9 * float(row["GFLOPS_first"]), rel=0.01)
        assert found.cost.bytes == pytest.approx(
            MIB * float(row["Data Moved (MB)_first"]), rel=0.01
        )
        assert found.time_ns == pytest.approx(
            1e3 * float(row["Kernel Time (\u00b5s)_sum"]), rel=0.01
        )


@pytest.mark.skipif(not TRACELENS.is_dir(), reason="TraceLens's tables lie beside the project")
@pytest.mark.parametrize("maker", ["h100", "mi300"])
def test_layer_norms_differ_from_tracelens_by_running_statistics_they_do_not_have(
    maker: str,
) -> None:
    trace = read_trace(TRACELENS / maker / f"{BERT}.json.gz")
    ours = {(o.name, o.shapes): o for o in roofline(trace)}
    compared = 0
    for row in tracelens_rows(maker, "Normalization"):
        found = ours.get((row["name"], row["Input Dims_first"].replace(" ", "")))
        if found is not None:
            compared += 1
            channels = int(row["param: num_channels"])
            theirs = round(MIB * float(row["Data Moved (MB)_first"]))
            assert theirs - found.cost.bytes == 4 * channels * 2
    assert compared
