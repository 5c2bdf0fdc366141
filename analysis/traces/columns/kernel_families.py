"""Which library a kernel comes from and what it does, by its name: thousands of names become a few
families.

Sources: the names that Inductor gives (`torch/_inductor/codegen/triton.py`: poi, red, per, tem,
for, spl), CUTLASS's and Tensile's encodings of type and tile, and the sources of the libraries that
are named. Only the name is known: a kernel of no pattern is "other".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from faultline.analysis.traces.columns.device import Kind, kind_of_name

NAME_CACHE_SIZE = 8_192


@dataclass(frozen=True)
class KernelFamily:
    """What a kernel's name says."""

    library: str
    work: str
    """"matrix product", "attention", ...; "" where only the library is known."""
    dtype: str = ""
    """As the name writes it ("bf16", "HHS")."""
    tile: str = ""
    """Tile of the output, and of the inner dimension where the name has it ("128x256x64")."""


def _names(*rows: tuple[str, str, str]) -> tuple[tuple[re.Pattern[str], str, str], ...]:
    return tuple((re.compile(pattern), library, work) for pattern, library, work in rows)


# The first pattern that matches wins: specific libraries stand before general ones.
_COMMUNICATION = _names(
    (r"(?i)deep_?ep::|internode|intranode::", "DeepEP", "expert dispatch and combine"),
    (r"(?i)mori::|moe_?a2a|moe_?alltoall", "expert parallelism", "expert dispatch and combine"),
    (r"(?i)nvshmem|rocshmem", "NVSHMEM, ROCSHMEM", "one-sided communication"),
    (r"(?i)trtllm|allreduce_fusion", "TensorRT-LLM", "custom all-reduce"),
    (r"(?i)cross_device_reduce|quick_?reduce|custom_all", "vLLM, SGLang", "custom all-reduce"),
    (r"(?i)multimem|_?shot_|symm_?mem", "PyTorch symmetric memory", "collective"),
    (r"(?i)msccl", "MSCCL++", "collective"),
    (r"(?i)hccl|^hcom_", "HCCL", "collective"),
    (r"(?i)oneccl|\bccl::", "oneCCL", "collective"),
    (r"(?i)nccl|rccl", "NCCL, RCCL", "collective"),
    (r"^(?:ragged-)?all-|^reduce-scatter|^collective-|^send|^recv", "XLA", "collective"),
)
_INDUCTOR = {
    "poi": "pointwise",
    "red": "reduction",
    "per": "persistent reduction",
    "tem": "template",
    "for": "foreach",
    "spl": "split scan",
    "mm": "matrix product",
    "unk": "generated",
}
_TRITON = re.compile(r"^triton_(poi|red|per|tem|for|spl|mm|unk)_")
_ATTENTION = _names(
    (r"(?i)flashinfer|Batch(?:Prefill|Decode)With|SinglePrefillWith", "FlashInfer", "attention"),
    (r"(?i)paged_attention|reshape_and_cache|concat_and_cache", "vLLM", "paged attention"),
    (r"(?i)unified_attention|_fwd_grouped_kernel_stage", "vLLM, SGLang (Triton)", "attention"),
    (r"(?i)flash_?mla|mla_(?:fwd|decode|prefill)|sparse_attn", "FlashMLA", "attention"),
    (r"(?i)cudnn.*sdpa", "cuDNN", "attention"),
    (r"(?i)fmha_cutlass|efficient_attention", "memory-efficient attention", "attention"),
    (r"(?i)FlashAttnBwd|flash_bwd|fmha_bwd", "FlashAttention", "attention backward"),
    (r"(?i)FlashAttn|flash_fwd_splitkv", "FlashAttention", "attention"),
    (r"(?i)flash::|flash_fwd|pytorch_flash", "FlashAttention", "attention"),
    (r"(?i)fmha|^attn_fwd|ck_tile.*Fmha", "fused attention", "attention"),
)
_MATRIX = _names(
    (r"^Cijk_", "Tensile, hipBLASLt", "matrix product"),
    (r"(?i)deep_?gemm|sm(?:90|100)_\w*gemm_\w*_impl", "DeepGEMM", "matrix product"),
    (r"(?i)marlin|machete", "vLLM (quantized)", "matrix product"),
    (r"(?i)fused_moe|_matmul_ogs|moe_?gemm|fmoe", "mixture of experts", "grouped matrix product"),
    (r"(?i)xmma_(?:fprop|dgrad|wgrad)|implicit_?(?:gemm|conv)|scudnn|winograd"
     r"|cudnn.*(?:conv|dgrad|wgrad)",
     "cuDNN", "convolution"),
    (r"(?i)miopen|^igemm_\w+_gtcx", "MIOpen", "convolution"),
    (r"(?i)nvjet", "cuBLAS", "matrix product"),
    (r"(?i)xmma_gemm|(?:volta|turing|ampere|hopper|maxwell)_\w*gemm|cublas|gemvx?|gemm[SM]N",
     "cuBLAS", "matrix product"),
    (r"(?i)(?:cutlass|device_kernel<).*(?:fprop|dgrad|wgrad|conv)", "CUTLASS", "convolution"),
    (r"(?i)cutlass", "CUTLASS", "matrix product"),
    (r"ck_tile|\bck::|^_ZN2ck", "Composable Kernel", ""),
    (r"(?i)aiter", "AITER", ""),
)  # fmt: skip
_FAMILIES = _names(
    (r"multi_tensor_apply|(?i:fused_?adam)", "PyTorch", "optimizer"),
    (r"(?i)layer_?norm|rms_?norm|batch_?norm|bn_fw|bn_bw|group_?norm", "", "normalisation"),
    (r"(?i)softmax", "", "softmax"),
    (r"(?i)rotary|rope_", "", "rotary embedding"),
    (r"(?i)embedding|fbgemm", "", "embedding"),
    (r"(?i)sort|topk|top_k|radix|cub::", "", "sort and select"),
    (r"(?i)elementwise|at::native::.*(?:Functor|copy_kernel)", "PyTorch", "elementwise"),
    (r"(?i)reduce_kernel", "PyTorch", "reduction"),
    (r"(?i)index|gather|scatter|CatArray", "PyTorch", "indexing"),
    (r"(?:^|_)fusion(?:[._]\d+)?$|^wrapped_|^input_\w+_fusion|^loop_\w+_fusion", "XLA", "fusion"),
    (r"_fusion_dot|^gemm_fusion", "XLA (Triton)", "matrix product"),
    (r"^convolution|^dot(?:\.\d+)?$", "XLA", "matrix product"),
    (r"at::native|at_cuda_detail", "PyTorch", ""),
    # Triton's suffix of argument specialisations, as in "_0d1d2de".
    (r"\d+[dc](?:\d+[dc]?e?)+(?:de)?$", "Triton", ""),
)
_TILE = re.compile(
    r"_MT(\d{1,4}x\d{1,4}x\d{1,4})"
    r"|tilesize(\d{1,4}x\d{1,4}x\d{1,4})"
    r"|(?<![\dx])(\d{2,4}x\d{1,4}(?:x\d{1,4})?)(?=[_x]|$)"
)
_TENSILE_TYPE = re.compile(r"^Cijk_A\w{3}_B\w{3}_([A-Z0-9]{1,8})_")
_TYPE = re.compile(
    r"(?<![a-z0-9])(e4m3|e5m2|fp8|f8|bf16|f16|fp16|half|tf32|f32|fp32|f64|fp4|mxfp4|nvfp4|int8|s8)"
    r"(?=[a-z_\d]|$|\W)",
    re.IGNORECASE,
)
_LETTER_GEMM = {"s": "f32", "d": "f64", "h": "f16", "bf16": "bf16"}
_OLD_GEMM = re.compile(
    r"^(?:volta|turing|ampere|hopper|maxwell)_(bf16|[sdh])\w*?gemm", re.IGNORECASE
)


@lru_cache(maxsize=NAME_CACHE_SIZE)
def family_of(name: str) -> KernelFamily:
    """The family of a kernel, copy or fill."""
    kind = kind_of_name(name)
    if kind == Kind.MEMORY:
        return KernelFamily("runtime", "copy and fill")
    # An hour of regular expressions hides in names of megabytes.
    name = name[:1_000]
    if kind == Kind.COMMUNICATION:
        family = _first(_COMMUNICATION, name)
        return KernelFamily(*family) if family else KernelFamily("other", "communication")
    generated = _TRITON.match(name)
    if generated is not None:
        return KernelFamily("Triton (Inductor)", _INDUCTOR[generated[1]])
    attention = _first(_ATTENTION, name)
    if attention is not None:
        return KernelFamily(*attention, dtype=_dtype(name))
    matrix = _first(_MATRIX, name)
    if matrix is not None:
        library, work = matrix
        return KernelFamily(library, work or _work(name), _dtype(name), _tile(name))
    family = _first(_FAMILIES, name)
    if family is None:
        return KernelFamily("other", "")
    return KernelFamily(family[0] or _library(name), family[1])


def _first(
    patterns: tuple[tuple[re.Pattern[str], str, str], ...], name: str
) -> tuple[str, str] | None:
    for pattern, library, work in patterns:
        if pattern.search(name):
            return library, work
    return None


def _library(name: str) -> str:
    for mark, library in (
        ("at::native", "PyTorch"),
        ("vllm::", "vLLM"),
        ("flashinfer", "FlashInfer"),
        ("cudnn", "cuDNN"),
        ("fbgemm", "FBGEMM"),
        ("split_embedding", "FBGEMM"),
        ("apex", "Apex"),
        ("transformer_engine", "Transformer Engine"),
        ("cub::", "CUB"),
    ):
        if mark in name:
            return library
    return "other"


def _work(name: str) -> str:
    """What a kernel of a library of many kinds does."""
    # The first four rows: optimizer, normalisation, softmax and rotary embedding.
    family = _first(_FAMILIES[:4], name)
    if family is not None:
        return family[1]
    if re.search(r"conv|bwd_weight|bwd_data", name):
        return "convolution"
    return "matrix product" if re.search(r"(?i)gemm|xdl", name) else ""


def _tile(name: str) -> str:
    match = _TILE.search(name)
    return next((group for group in match.groups() if group), "") if match else ""


def _dtype(name: str) -> str:
    # Letters of mangled names are lengths and types of C++.
    if name.startswith("_Z"):
        return ""
    encoded = _TENSILE_TYPE.match(name)
    if encoded is not None:
        return encoded[1]
    old = _OLD_GEMM.match(name)
    if old is not None:
        return _LETTER_GEMM[old[1].lower()]
    match = _TYPE.search(name)
    return match[1].lower() if match else ""
