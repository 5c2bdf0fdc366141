"""Scaled dot product attention: two products forward, five backward, half of each with a causal
mask (FlashAttention's convention, which TraceLens follows).

Shapes are [batch, heads, length, head] for PyTorch's operators and [batch, length, heads, head] for
flash-attn's. Sequences of different lengths in one tensor ("varlen") need lengths that a trace does
not hold: they are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from faultline.analysis.traces.costs.call import Call, Cost, Unknown, cost_from

FORWARD, BACKWARD = 2, 5
"""Products: Q K and P V; backward S again, dP, dV, dQ and dK."""


def _attention(
    call: Call,
    *,
    first: int = 0,
    causal: int | None,
    backward: bool = False,
    heads_last: bool = False,
) -> Cost:
    """`first` is the place of the query, followed by key and value; `causal` that of the flag."""
    query, key, value = (call.shape(first + i, 4) for i in range(3))
    heads, length = (2, 1) if heads_last else (1, 2)
    batch, q_heads = query[0], query[heads]
    pairs = batch * q_heads * query[length] * key[length]
    if causal is not None and call.at(causal).value == "True":
        pairs //= 2
    if backward:
        # S, dQ and dK are as wide as a query, dP and dV as a value.
        flops = 2 * pairs * (3 * query[3] + 2 * value[3])
    else:
        flops = 2 * pairs * (query[3] + value[3])
    out = batch * q_heads * query[length] * value[3]
    tensors = sum(call.at(first + i).bytes for i in range(3))
    item = call.at(first).item_bytes
    moved = 2 * tensors + 2 * out * item if backward else tensors + out * item
    return cost_from(call, "attention", flops, moved)


def _no_lengths(call: Call) -> Cost:
    raise Unknown(f"the lengths of the sequences of {call.name}")


_FLASH = partial(_attention, causal=4)
COSTS: Mapping[str, Callable[[Call], Cost]] = {
    # query, key, value, dropout_p, is_causal
    "aten::_scaled_dot_product_flash_attention": _FLASH,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _FLASH,
    # query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal
    "aten::_scaled_dot_product_efficient_attention": partial(_attention, causal=6),
    "aten::_scaled_dot_product_cudnn_attention": partial(_attention, causal=6),
    # grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p,
    # is_causal
    "aten::_scaled_dot_product_flash_attention_backward": partial(
        _attention, first=1, causal=11, backward=True
    ),
    # grad_out, query, key, value, attn_bias, out, logsumexp, seed, offset, dropout_p, mask,
    # is_causal
    "aten::_scaled_dot_product_efficient_attention_backward": partial(
        _attention, first=1, causal=11, backward=True
    ),
    # grad_out, query, key, value, out, logsumexp, seed, offset, attn_bias, cum_seq_q, cum_seq_k,
    # max_q, max_k, dropout_p, is_causal
    "aten::_scaled_dot_product_cudnn_attention_backward": partial(
        _attention, first=1, causal=14, backward=True
    ),
    # q, k, v, dropout_p, softmax_scale, causal
    "flash_attn::_flash_attn_forward": partial(_attention, causal=5, heads_last=True),
    # grad_out, q, k, v, out, softmax_lse, dq, dk, dv, dropout_p, softmax_scale, causal
    "flash_attn::_flash_attn_backward": partial(
        _attention, first=1, causal=11, backward=True, heads_last=True
    ),
    "flash_attn::_flash_attn_varlen_forward": _no_lengths,
    "flash_attn::_flash_attn_varlen_backward": _no_lengths,
}
