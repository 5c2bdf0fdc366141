"""Whether matrix products ran on the accelerator's matrix units (tensor cores, AMD's MFMA).

Kernel names show it, as in TensorBoard's plugin, with the names of newer libraries added. Operators
that could use them are those of the plugin's list.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import Kind, kinds, launched_by
from faultline.analysis.traces.columns.events import Int64, TraceColumns
from faultline.analysis.traces.columns.intervals import running_end
from faultline.analysis.traces.columns.row_table import BOOL, INT, TEXT, Rows, RowTable
from faultline.analysis.traces.doctor.diagnosis import EventReference
from faultline.analysis.traces.native.lane import lane_order
from faultline.analysis.traces.per_rank.step_times import StepWindow, longest, window_of

TENSOR_CORE_KERNEL = re.compile(
    r"h884|s884|h1688|s1688|i8816|16816|16832|hmma|imma|tensorop|tensor_op|xmma_|_wmma|wgmma"
    r"|warpgroup|nvjet|"
    r"sm(?:80|86|89|90|100|120)_xmma|tcgen05|flash_(?:fwd|bwd)|fmha_(?:cutlass|v2)"
    r"|cudnn_generated_fort_native_sdpa|"
    r"Cijk_.*_MI\d|mfma|\bck::.*xdl|xdlops|_xdl_|igemm_\w+_gtcx",
    re.IGNORECASE,
)
"""h884, s884, h1688, s1688, i8816, hmma, xmma_ (the plugin's); CUTLASS tensorop, nvjet (Hopper,
Blackwell), wgmma, FlashAttention; AMD: Tensile kernels with MI (matrix instructions), Composable
Kernel's XDL, MIOpen's igemm ... gtcx."""
MATRIX_KERNEL = re.compile(
    r"(?<!fb)gemm|conv|dgrad|wgrad|fprop|implicit|winograd|Cijk_|nvjet|cutlass|attention|fmha"
    r"|flash_|igemm|miopen.*conv",
    re.IGNORECASE,
)
"""The embedding and permutation kernels of FBGEMM are none, whose names or arguments have
`fbgemm_gpu::` in them."""
NO_MATRIX_KERNEL = re.compile(
    r"gemv|convert|gemmk1|splitKreduce|reduceSplitK|reduce_wgrad|reduce_kernel|elementwise"
    r"|reshape_and_cache|Offsets?Kernel",
    re.IGNORECASE,
)
ELIGIBLE = (
    "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::matmul", "aten::linear",
    "aten::addbmm",
    "aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::convolution", "aten::cudnn_convolution",
    "aten::miopen_convolution", "aten::cudnn_convolution_backward", "aten::convolution_backward",
    "aten::_scaled_mm",
    "aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_efficient_attention", "aten::_scaled_dot_product_cudnn_attention",
)  # fmt: skip
"""Operators that can run on matrix units."""


@dataclass(frozen=True)
class TensorCores:
    """Use of matrix units in the window's steps."""

    eligible_operators: int
    """One that another of them calls (`aten::linear` calls `aten::addmm`) is not counted again."""
    used_kernels: int
    used_ns: int
    matrix_kernels: int
    """Kernels of matrix products and convolutions that ran without matrix units."""
    matrix_ns: int
    kernel_ns: int
    """All computation kernels."""
    compute_capability: float | None
    """7.0 from Volta on; None where the trace does not say, or the vendor counts otherwise."""
    half_inputs: int
    """Eligible operators with half or bfloat16 inputs; 0 also where shapes and types were not
    recorded."""
    longest: tuple[EventReference, ...]
    """Matrix products without matrix units."""


def tensor_cores(trace: TraceColumns, window: StepWindow | None = None) -> TensorCores:
    """Matrix units used and not used."""
    window = window or window_of(trace)
    here = window.holds(trace)
    kernels = np.flatnonzero(here & (kinds(trace) == Kind.COMPUTATION))
    used, matrix = _split(trace, kernels)
    operators = trace.rows_named(lambda name: name in ELIGIBLE)
    operators = _outermost(trace, operators[here[operators]])
    types = trace.arguments.text("Input type")
    # -1, for types that were not recorded, reads the last place.
    half = np.asarray(
        [bool(re.search("half|bfloat", t, re.IGNORECASE)) for t in types.texts] + [False]
    )
    return TensorCores(
        eligible_operators=len(operators),
        used_kernels=len(used),
        used_ns=int(trace.dur[used].sum()),
        matrix_kernels=len(matrix),
        matrix_ns=int(trace.dur[matrix].sum()),
        kernel_ns=int(trace.dur[kernels].sum()),
        compute_capability=compute_capability(trace),
        half_inputs=int(half[types.ids_at(operators)].sum()) if len(operators) else 0,
        longest=longest(trace, matrix, window.steps),
    )


def _outermost(trace: TraceColumns, rows: Int64) -> Int64:
    """Those of the rows that lie in no other of them on their thread."""
    rows = lane_order(rows, trace.lane, len(trace.lanes), trace.ts, trace.dur)
    reach, lane = running_end(trace.end[rows], trace.lane[rows].astype(np.int64)), trace.lane[rows]
    inside = (lane[1:] == lane[:-1]) & (trace.end[rows][1:] <= reach[:-1])
    return np.sort(rows[np.concatenate((np.ones(min(len(rows), 1), dtype=np.bool_), ~inside))])


def _split(trace: TraceColumns, kernels: Int64) -> tuple[Int64, Int64]:
    used = np.zeros(len(trace.names) + 1, dtype=np.bool_)
    matrix = np.zeros(len(trace.names) + 1, dtype=np.bool_)
    for i in trace.names_of(kernels).tolist():
        name = trace.names[i]
        used[i] = TENSOR_CORE_KERNEL.search(name) is not None
        matrix[i] = (
            not used[i] and bool(MATRIX_KERNEL.search(name)) and not NO_MATRIX_KERNEL.search(name)
        )
    return kernels[used[trace.name[kernels]]], kernels[matrix[trace.name[kernels]]]


def matrix_kernels(trace: TraceColumns, kernels: Int64) -> Int64:
    """Those of the kernels that compute matrix products, on matrix units or not."""
    return np.sort(np.concatenate(_split(trace, kernels)))


def compute_capability(trace: TraceColumns) -> float | None:
    """CUDA's compute capability of the first device; None for other vendors (they count from 9 in
    another way)."""
    devices = trace.header.get("deviceProperties")
    first = (
        devices[0] if isinstance(devices, list) and devices and isinstance(devices[0], dict) else {}
    )
    major, minor = first.get("computeMajor"), first.get("computeMinor", 0)
    # AMD's wavefronts have 64 lanes, and its version numbers mean something else.
    if (
        not isinstance(major, int)
        or first.get("warpSize") == 64
        or re.search("AMD|Radeon", str(first.get("name", "")))
    ):
        return None
    return major + (minor if isinstance(minor, int) else 0) / 10


TABLE = RowTable(TEXT("kernel"), BOOL("uses_matrix_units"), INT("count", "launched", "total_ns"))


def rows(trace: TraceColumns) -> Rows:
    """Kernels of matrix products by name and whether they use matrix units, as JSON rows, the
    longest first."""
    window = window_of(trace)
    kernels = np.flatnonzero(window.holds(trace) & (kinds(trace) == Kind.COMPUTATION))
    launch = launched_by(trace) if len(kernels) else kernels
    rows = []
    for group, uses in zip(_split(trace, kernels), (True, False), strict=True):
        for name, kernel_rows in trace.by_name(group):
            launched = (launch[kernel_rows] >= 0).sum()
            rows.append((name, uses, len(kernel_rows), launched, trace.dur[kernel_rows].sum()))
    return sorted(TABLE.of(rows), key=lambda row: -int(row["total_ns"]))
