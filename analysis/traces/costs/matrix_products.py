"""Matrix products: 2 M N K operations, and each matrix read or written once.

The definitions are TraceLens's: a bias adds M N. Grouped products (mixture of experts) are taken
from PyTorch's `_grouped_mm`, vLLM's and Megatron's grouped GEMMs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from faultline.analysis.traces.costs.call import Argument, Call, Cost, Unknown, cost_from

HALF = 2
"""Bytes of an output in bfloat16, which products of 8-bit and 4-bit inputs have where the call does
not say."""


def _product(call: Call, a: int, b: int, bias: int | None = None) -> Cost:
    """[M, K] x [K, N], with leading batch dimensions that both have."""
    left, right = call.shape(a), call.shape(b)
    if len(left) < 2 or len(left) != len(right) or left[-1] != right[-2]:
        raise Unknown(f"{call.name} of {left} and {right}")
    batch, m, k, n = prod(left[:-2]), left[-2], left[-1], right[-1]
    flops = 2 * batch * m * n * k
    moved = call.at(a).bytes + call.at(b).bytes + batch * m * n * call.at(a).item_bytes
    if bias is not None:
        flops += batch * m * n
        moved += call.at(bias).bytes
    return cost_from(call, "matrix product", flops, moved)


def mm(call: Call) -> Cost:
    """aten::mm and aten::bmm (self, mat2)."""
    return _product(call, 0, 1)


def addmm(call: Call) -> Cost:
    """aten::addmm and aten::baddbmm (self, mat1, mat2)."""
    return _product(call, 1, 2, bias=0)


def linear(call: Call) -> Cost:
    """Linear layers whose operator launches the product itself, as vLLM's (x, weight [N, K],
    bias)."""
    left, weight = call.shape(0), call.shape(1, 2)
    if left[-1] != weight[1]:
        raise Unknown(f"{call.name} of {left} and {weight}")
    m, k, n = prod(left[:-1]), left[-1], weight[0]
    bias = call.at(2)
    moved = call.at(0).bytes + call.at(1).bytes + m * n * call.at(0).item_bytes
    flops = 2 * m * n * k
    if bias.shape == (n,):
        flops += m * n
        moved += bias.bytes
    return cost_from(call, "matrix product", flops, moved)


def scaled_mm(call: Call) -> Cost:
    """aten::_scaled_mm (self [M, K], mat2 [K, N], scales, bias): 8-bit or 4-bit in, 16-bit out."""
    left, right = call.shape(0, 2), call.shape(1, 2)
    # Float4_e2m1fn_x2 packs two values into one element, so K is twice what the shape says.
    k = left[1] if call.at(0).type != "c10::Float4_e2m1fn_x2" else 2 * left[1]
    moved = call.at(0).bytes + call.at(1).bytes + left[0] * right[1] * HALF
    return cost_from(call, "matrix product", 2 * left[0] * right[1] * k, moved)


def grouped_mm(call: Call) -> Cost:
    """aten::_grouped_mm and _scaled_grouped_mm (self, mat2, offsets): each row of [M, K] meets one
    of the matrices [G, K, N]; of two matrices with two dimensions, K is what the groups share
    out."""
    left, right = call.shape(0), call.shape(1)
    m, k, n = left[-2], left[-1], right[-1]
    if len(left) > 2 and len(right) > 2:
        m *= left[0]
    flops, out = 2 * m * n * k, m * n
    if len(left) == len(right) == 2:
        out *= _groups(call)
    # 8-bit inputs have 16-bit outputs.
    item = max(call.at(0).item_bytes, HALF)
    return cost_from(
        call, "grouped matrix product", flops, (call.at(0).bytes + call.at(1).bytes + out * item)
    )


def _groups(call: Call) -> int:
    """From the offsets: one for each group."""
    for argument in call.arguments[2:]:
        if len(argument.shape) == 1 and argument.type == "int":
            return argument.shape[0]
    return 1


def experts(call: Call) -> Cost:
    """vLLM's fused experts (hidden [T, H], w1 [E, 2 I, H], w2 [E, H, I], weights [T, top-k]): two
    products of each token with top-k of the experts. How many experts a batch meets is not
    recorded, so all weights count as read, or one expert for each pair where those are fewer."""
    tokens, hidden = call.shape(0, 2)
    first, second = call.shape(1, 3), call.shape(2, 3)
    picked = _picks(call.arguments[3:], tokens)
    pairs = tokens * picked
    flops = 2 * pairs * (hidden * first[1] + second[1] * second[2])
    read = min(pairs, first[0])
    weights = read * (first[1] * first[2] + second[1] * second[2]) * call.at(1).item_bytes
    moved = weights + 2 * call.at(0).bytes
    return cost_from(call, "grouped matrix product", flops, moved)


def _picks(arguments: tuple[Argument, ...], tokens: int) -> int:
    for argument in arguments:
        if len(argument.shape) == 2 and argument.shape[0] == tokens:
            return argument.shape[1]
    raise Unknown("how many experts a token is sent to")


COSTS: Mapping[str, Callable[[Call], Cost]] = {
    "aten::mm": mm,
    "aten::bmm": mm,
    "aten::addmm": addmm,
    "aten::_addmm_activation": addmm,
    "aten::baddbmm": addmm,
    "aten::_scaled_mm": scaled_mm,
    "aten::_int_mm": mm,
    "aten::_grouped_mm": grouped_mm,
    "aten::_scaled_grouped_mm": grouped_mm,
    "vllm::rocm_unquantized_gemm": linear,
    "vllm::rocm_unquantized_gemm_impl": linear,
    "vllm::fused_experts": experts,
    "vllm::inplace_fused_experts": experts,
    "vllm::outplace_fused_experts": experts,
}
