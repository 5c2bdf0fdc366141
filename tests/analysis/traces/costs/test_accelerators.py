"""Peaks of accelerators: every figure has a published source, and agrees with what others publish
of the same device."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from faultline.analysis.traces.costs import call
from faultline.analysis.traces.costs.call import accelerator_named

TABLE = Path(call.__file__).with_name("accelerators.toml")
LIGHTNING: dict[str, dict[str, float]] = {
    "NVIDIA H100 80GB HBM3": {"bf16": 989.4, "int8": 1978.9, "tf32": 494.7, "fp32": 66.9},
    "NVIDIA H100 PCIe": {"bf16": 756, "int8": 1513, "tf32": 378, "fp32": 51.2},
    "NVIDIA GeForce RTX 4090": {"int8": 660.6, "tf32": 82.6, "fp32": 82.6},
    "NVIDIA L4": {"bf16": 121, "int8": 242, "tf32": 60, "fp32": 30.3},
    "NVIDIA L40": {"bf16": 181, "int8": 362, "tf32": 90.5, "fp32": 90.5},
    "NVIDIA A100-SXM4-80GB": {"bf16": 312, "int8": 624, "tf32": 156, "fp32": 19.5},
    "NVIDIA RTX A6000": {"int8": 309.7, "tf32": 77.4, "fp32": 38.7},
    "NVIDIA A40": {"int8": 299.3, "tf32": 74.8, "fp32": 37.4},
    "NVIDIA A10": {"bf16": 125, "int8": 250, "tf32": 62.5, "fp32": 31.2},
    "NVIDIA GeForce RTX 3090": {"int8": 284, "tf32": 35.6, "fp32": 35.6},
    "Tesla T4": {"fp16": 65, "int8": 130, "fp32": 8.1},
    "Tesla V100-SXM2-32GB": {"fp16": 125, "fp32": 15.7, "fp64": 7.8},
    "Tesla V100-PCIE-16GB": {"fp16": 112, "fp32": 14, "fp64": 7},
}
"""lightning.fabric.utilities.throughput, TFLOP/s. Left out is what it has of 16-bit products on
cards whose tensor cores it does not count."""
PYTORCH: dict[str, dict[str, float]] = {
    "AMD Instinct MI350X": {"bf16": 2309.6, "fp8": 4614, "fp32": 144.2, "fp64": 72.1},
    "AMD Instinct MI300A": {"bf16": 980.6, "fp8": 1961.2, "tf32": 490.3, "fp32": 122.6},
    "AMD Instinct MI300X": {"bf16": 1307.4, "fp8": 2614.9, "tf32": 653.7, "fp32": 163.4},
    "AMD Instinct MI210": {"bf16": 181, "int8": 181, "fp32_matrix": 45.3, "fp64": 45.3},
}
"""torch._inductor.analysis.device_info, TFLOP/s."""


def test_every_entry_says_where_its_figures_are_published() -> None:
    entries = tomllib.loads(TABLE.read_text())["accelerator"]
    assert len(entries) > 30
    for entry in entries:
        assert entry["url"].startswith("https://"), entry["pattern"]
        assert entry["source"]


@pytest.mark.parametrize("name", [*LIGHTNING, *PYTORCH])
def test_peaks_agree_with_other_tables_of_the_same_data_sheets(name: str) -> None:
    found = accelerator_named(name)
    assert found is not None
    for precision, tflops in (LIGHTNING | PYTORCH)[name].items():
        assert found.tflops[precision] == pytest.approx(tflops, rel=0.001), precision
