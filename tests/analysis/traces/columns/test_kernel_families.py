"""Kernels by family: names as libraries write them, seen in public traces and sources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.traces.columns.device import is_communication_kernel
from faultline.analysis.traces.columns.kernel_families import family_of

FAMILIES = [
    ("triton_poi_fused_add_mul_3", "Triton (Inductor)", "pointwise", "", ""),
    ("triton_red_fused_native_layer_norm_0", "Triton (Inductor)", "reduction", "", ""),
    ("triton_per_fused_sum_1", "Triton (Inductor)", "persistent reduction", "", ""),
    ("triton_tem_fused_mm_2", "Triton (Inductor)", "template", "", ""),
    (
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_64x3_tn_align8>",
        "CUTLASS",
        "matrix product",
        "bf16",
        "128x64",
    ),
    (
        "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32_stage4_warpsize2x2x1_kernel",
        "cuBLAS",
        "matrix product",
        "f16",
        "128x128x32",
    ),
    ("nvjet_tst_128x256_64x4_2x1_v_bz_TNT", "cuBLAS", "matrix product", "", "128x256"),
    ("ampere_sgemm_128x64_nn", "cuBLAS", "matrix product", "f32", "128x64"),
    ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_32x6_nn", "cuBLAS", "matrix product",
     "bf16", "128x64"),
    ("sm80_xmma_fprop_implicit_gemm_f16f16_tilesize64x64x64", "cuDNN", "convolution", "", ""),
    ("void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3>", "cuDNN", "convolution", "", ""),
    ("Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8", "Tensile, hipBLASLt", "matrix product", "HHS",
     "128x128x32"),
    ("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8", "MIOpen", "convolution", "bf16",
     ""),
    ("_ZN2ck16tensor_operation6device37kernel_batched_gemm_xdlops_bwd_weight", "Composable Kernel",
     "convolution", "", ""),
    ("_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwd", "Composable Kernel", "normalisation", "", ""),
    ("void aiter::some_quantising_kernel<float>", "AITER", "", "", ""),
    ("void pytorch_flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits>", "FlashAttention",
     "attention", "", ""),
    ("void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<>", "FlashAttention",
     "attention backward", "", ""),
    ("void flashinfer::BatchDecodeWithPagedKVCacheKernel<>", "FlashInfer", "attention", "", ""),
    ("kernel_unified_attention_3d", "vLLM, SGLang (Triton)", "attention", "", ""),
    ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1", "mixture of experts",
     "grouped matrix product", "bf16", "16x128x256"),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
     "PyTorch", "elementwise", "", ""),
    ("Memcpy HtoD (Pinned -> Device)", "runtime", "copy and fill", "", ""),
    ("loop_add_fusion", "XLA", "fusion", "", ""),
    ("fusion.17", "XLA", "fusion", "", ""),
    ("_topk_gating_fwd", "other", "sort and select", "", ""),
    ("my_own_kernel", "other", "", "", ""),
]  # fmt: skip
COMMUNICATION = [
    ("ncclDevKernel_AllGather_RING_LL", "NCCL, RCCL"),
    ("ncclSymkDevKernel_AllReduce_AGxLLMC_R_sum_bf16", "NCCL, RCCL"),
    ("void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*)", "DeepEP"),
    ("void deep_ep::intranode::combine<c10::BFloat16, 8>", "DeepEP"),
    ("void tensorrt_llm::moeA2ADispatchKernel<>", "expert parallelism"),
    ("mori::moe::EpDispatchIntraNodeKernel", "expert parallelism"),
    ("nvshmemi_transfer_rma_p2p", "NVSHMEM, ROCSHMEM"),
    ("void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>",
     "PyTorch symmetric memory"),
    ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>",
     "PyTorch symmetric memory"),
    ("void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>", "vLLM, SGLang"),
    ("void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<>",
     "TensorRT-LLM"),
    ("mscclKernel_Sum_half_Simple", "MSCCL++"),
    ("hcom_allReduce__428_0_1", "HCCL"),
    ("void oneccl::allreduce_kernel", "oneCCL"),
    ("all-reduce-start.4", "XLA"),
    ("ragged-all-to-all.1", "XLA"),
    ("dlslime::intranode_alltoall_kernel", "other"),
]  # fmt: skip
COMPUTATION = [
    "triton_poi_fused_all_reduce_wait_tensor_2",
    "void at::native::reduce_kernel<512, 1>",
    "send_to_expert",
    "permute_all_tokens",
    "void cutlass::device_kernel<flash::FlashAttnFwdSm90>",
]


@pytest.mark.parametrize(("name", "library", "work", "dtype", "tile"), FAMILIES)
def test_names_say_library_work_type_and_tile(
    name: str, library: str, work: str, dtype: str, tile: str
) -> None:
    family = family_of(name)
    assert (family.library, family.work) == (library, work)
    if dtype:
        assert family.dtype == dtype
    if tile:
        assert family.tile == tile


@pytest.mark.parametrize(("name", "library"), COMMUNICATION)
def test_communication_is_known_by_library(name: str, library: str) -> None:
    assert is_communication_kernel(name)
    assert family_of(name).library == library


@pytest.mark.parametrize("name", COMPUTATION)
def test_other_names_are_no_communication(name: str) -> None:
    assert not is_communication_kernel(name)


@given(st.text(max_size=300))
def test_every_name_has_a_family(name: str) -> None:
    assert family_of(name).library


def test_a_name_of_megabytes_costs_no_more_than_its_beginning() -> None:
    assert family_of("triton_poi_fused_" + "x" * 5_000_000).work == "pointwise"
    assert family_of("a" * 5_000_000).library == "other"
