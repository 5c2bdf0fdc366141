from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.traces.per_rank.tensor_cores import (
    MATRIX_KERNEL,
    TENSOR_CORE_KERNEL,
    rows,
    tensor_cores,
)
from tests.analysis.traces.device_traces import GEMM, kernel, trace_of
from tests.analysis.traces.written_traces import event

STEP = event("ProfilerStep#1", 1_000, 1_000, cat="user_annotation")


@pytest.mark.parametrize(
    "name",
    [
        "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn",
        "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn",
        "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_nn",
        "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1",
        "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT",
        "void "
        "cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128_32x3_nn_align8>",
        "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<64, 64, 256, 4>>",
        "Cijk_Ailk_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT64x64x64_MI16x16x1_SN",
    ],
)
def test_kernels_that_use_matrix_units_are_known_by_name(name: str) -> None:
    assert TENSOR_CORE_KERNEL.search(name)


@pytest.mark.parametrize(
    "name", [GEMM, "volta_scudnn_128x64_relu_interior_nn_v1", "elementwise_kernel", "ncclDevKernel"]
)
def test_kernels_that_do_not_are_not_taken_for_them(name: str) -> None:
    assert not TENSOR_CORE_KERNEL.search(name)


def test_use_is_counted_over_the_steps(tmp_path: Path) -> None:
    work = [
        kernel(GEMM, 1_100, 100),
        kernel("ampere_bf16_s16816gemm", 1_300, 50),
        kernel("elementwise", 1_400, 50),
    ]
    calls = [
        event("aten::mm", 1_000, 5) | {"args": {"Input type": ["c10::Half", "c10::Half"]}},
        event("aten::add", 1_010, 5),
    ]
    trace = trace_of(tmp_path, STEP, *calls, *work)
    found = tensor_cores(trace)
    assert (found.eligible_operators, found.half_inputs) == (1, 1)
    assert (found.used_kernels, found.used_ns, found.matrix_kernels, found.matrix_ns) == (
        1,
        50_000,
        1,
        100_000,
    )
    assert [r["uses_matrix_units"] for r in rows(trace)] == [False, True]


@pytest.mark.parametrize(
    "name",
    [
        "void fbgemm_gpu::permute_2D_data_kernel<true, int, int, float>(int, int, int, int const*)",
        "void split_embedding_codegen_forward_unweighted_kernel<float>(float, "
        "fbgemm_gpu::FixedDivisor)",
    ],
)
def test_embedding_kernels_of_fbgemm_are_no_matrix_products(name: str) -> None:
    assert not MATRIX_KERNEL.search(name)
    assert MATRIX_KERNEL.search("volta_sgemm_128x32_tn")
    assert MATRIX_KERNEL.search("void gemmSN_TN_kernel<float>")


def test_an_operator_counts_once_with_those_that_it_calls(tmp_path: Path) -> None:
    nested = [
        event("aten::linear", 1_000, 50),
        event("aten::addmm", 1_010, 30),
        event("aten::mm", 1_100, 10),
    ]
    elsewhere = event("aten::mm", 1_010, 10) | {"tid": 99}
    assert tensor_cores(trace_of(tmp_path, STEP, *nested, elsewhere)).eligible_operators == 3
