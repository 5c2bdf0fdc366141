"""Operators that move more than they compute: normalization, softmax, embeddings, elementwise
operators and reductions.

Their bytes matter: each input read once, each output written once. Their operations are counted as
TraceLens does where it does (elementwise one for each output, layer norm five); others are small
whole numbers for each element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod

from faultline.analysis.traces.costs.call import Call, Cost, Shape, Unknown, cost_from


def normalization(call: Call, *, affine: tuple[int, ...], running: tuple[int, ...] = ()) -> Cost:
    """Of the first argument; `affine` and `running` are the places of weight and bias, and of the
    running mean and variance. Mean, variance, subtraction, division and scaling: five operations
    for each element."""
    shape = call.shape(0)
    moved = 2 * call.at(0).bytes
    moved += sum(call.at(place).bytes for place in affine)
    moved += 2 * sum(call.at(place).bytes for place in running)
    return cost_from(call, "normalization", 5 * prod(shape), moved)


def normalization_backward(call: Call, *, affine: tuple[int, ...]) -> Cost:
    """(grad_output, input, ...): reads both, writes the input's gradient; about eleven operations
    for each element (two sums over the normalized part, three products and two differences, and
    the gradients of weight and bias)."""
    shape = call.shape(0)
    moved = 2 * call.at(0).bytes + call.at(1).bytes
    moved += 2 * sum(call.at(place).bytes for place in affine)
    return cost_from(call, "normalization", 11 * prod(shape), moved)


def softmax(call: Call) -> Cost:
    """(self, dim): maximum, difference, exponential, sum, division."""
    return cost_from(call, "softmax", 5 * prod(call.shape(0)), 2 * call.at(0).bytes)


def softmax_backward(call: Call) -> Cost:
    """(grad_output, output, dim): product, sum, difference, product."""
    moved = 2 * call.at(0).bytes + call.at(1).bytes
    return cost_from(call, "softmax", 4 * prod(call.shape(0)), moved)


def embedding(call: Call) -> Cost:
    """(weight, indices): one row read and written for each index."""
    table, indices = call.shape(0, 2), call.at(1)
    rows = indices.elements * table[1] * call.at(0).item_bytes
    return cost_from(call, "embedding", 0, 2 * rows + indices.bytes)


def embedding_bag(call: Call) -> Cost:
    """(weight, indices, offsets): the rows of a bag are added up."""
    table, indices, bags = call.shape(0, 2), call.at(1), call.at(2)
    item = call.at(0).item_bytes
    summed = indices.elements * table[1]
    moved = (summed + bags.elements * table[1]) * item + indices.bytes + bags.bytes
    return cost_from(call, "embedding", summed, moved)


def embedding_backward(call: Call) -> Cost:
    """aten::embedding_dense_backward (grad_output, indices, num_weights): every row of the table is
    written, those of the indices are added to."""
    grad, weights = call.shape(0), call.at(2).numbers
    if not weights:
        raise Unknown("rows of the table")
    item = call.at(0).item_bytes
    moved = call.at(0).bytes + call.at(1).bytes + weights[0] * grad[-1] * item
    return cost_from(call, "embedding", prod(grad), moved)


def unary(call: Call, *, operations: int = 1) -> Cost:
    """One tensor in, one like it out."""
    shape = call.shape(0)
    return cost_from(call, "elementwise", operations * prod(shape), 2 * call.at(0).bytes)


def copied(call: Call) -> Cost:
    """aten::copy_ (self, src): reads the one, writes the other."""
    call.shape(0)
    source = call.at(1).bytes or call.at(0).bytes
    return cost_from(call, "elementwise", 0, call.at(0).bytes + source)


def binary(call: Call) -> Cost:
    """Two tensors in, or one and a number; the output is as large as the two broadcast."""
    first, second = call.at(0), call.at(1)
    if not first.item_bytes or not (first.shape or second.shape):
        raise Unknown(f"the tensors of {call.name}")
    out = prod(broadcast(first.shape, second.shape))
    item = max(first.item_bytes, second.item_bytes if second.shape else 0)
    return cost_from(call, "elementwise", out, first.bytes + second.bytes + out * item)


def reduction(call: Call) -> Cost:
    """(self, dim, keepdim): one operation for each element. What is written is small beside what
    is read, but for a reduction over few elements."""
    shape = call.shape(0)
    over = call.at(1).numbers if call.at(1).type in ("ScalarList", "Scalar") else ()
    out_elements = prod(s for i, s in enumerate(shape) if i not in {d % len(shape) for d in over})
    out = out_elements if over else 1
    return cost_from(call, "reduction", prod(shape), call.at(0).bytes + out * call.at(0).item_bytes)


def broadcast(first: Shape, second: Shape) -> Shape:
    """The shape of two that are broadcast. Raises Unknown where they cannot be."""
    length = max(len(first), len(second))
    left = (1,) * (length - len(first)) + first
    right = (1,) * (length - len(second)) + second
    for a, b in zip(left, right, strict=True):
        if a != b and 1 not in (a, b):
            raise Unknown(f"{first} and {second} together")
    return tuple(b if a == 1 else a for a, b in zip(left, right, strict=True))


_UNARY = ("abs", "ceil", "clamp", "clamp_max", "clamp_min", "cos", "elu", "erf", "exp", "floor",
          "gelu", "hardswish", "hardtanh", "leaky_relu", "log", "mish", "neg", "pow", "reciprocal",
          "relu", "rsqrt", "sigmoid", "silu", "sin", "softplus", "sqrt", "tanh")  # fmt: skip
_BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "where", "sigmoid_backward",
           "tanh_backward", "threshold_backward", "gelu_backward", "silu_backward",
           "rsub", "lerp", "eq", "ne", "lt", "gt", "le", "ge")  # fmt: skip
_REDUCTIONS = ("sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "norm",
               "linalg_vector_norm", "var", "std", "cumsum", "prod")  # fmt: skip
_BATCH_NORM = partial(normalization, affine=(1, 2), running=(3, 4))
_BATCH_NORM_BACKWARD = partial(normalization_backward, affine=(2,))

COSTS: Mapping[str, Callable[[Call], Cost]] = {
    # input, weight, bias, running_mean, running_var
    "aten::native_batch_norm": _BATCH_NORM,
    "aten::_native_batch_norm_legit": _BATCH_NORM,
    "aten::cudnn_batch_norm": _BATCH_NORM,
    "aten::miopen_batch_norm": _BATCH_NORM,
    "aten::native_batch_norm_backward": _BATCH_NORM_BACKWARD,
    "aten::cudnn_batch_norm_backward": _BATCH_NORM_BACKWARD,
    "aten::miopen_batch_norm_backward": _BATCH_NORM_BACKWARD,
    # input, normalized_shape, weight, bias
    "aten::native_layer_norm": partial(normalization, affine=(2, 3)),
    # grad_out, input, normalized_shape, mean, rstd, weight, bias
    "aten::native_layer_norm_backward": partial(normalization_backward, affine=(5, 6)),
    # input, weight, bias
    "aten::native_group_norm": partial(normalization, affine=(1, 2)),
    # grad_out, input, mean, rstd, weight
    "aten::native_group_norm_backward": partial(normalization_backward, affine=(4,)),
    # input, normalized_shape, weight
    "aten::_fused_rms_norm": partial(normalization, affine=(2,)),
    "aten::_fused_rms_norm_backward": partial(normalization_backward, affine=(4,)),
    # x, weight
    "aiter::rms_norm": partial(normalization, affine=(1,)),
    "vllm::rocm_aiter_rms_norm": partial(normalization, affine=(1,)),
    "aten::_softmax": softmax,
    "aten::_log_softmax": softmax,
    "aten::_softmax_backward_data": softmax_backward,
    "aten::_log_softmax_backward_data": softmax_backward,
    "aten::embedding": embedding,
    "aten::_embedding_bag": embedding_bag,
    "aten::embedding_dense_backward": embedding_backward,
    "aten::copy_": copied,
    "aten::fill_": partial(unary, operations=0),
    **{f"aten::{name}": unary for name in _UNARY},
    **{f"aten::{name}_": unary for name in _UNARY},
    **{f"aten::{name}": binary for name in _BINARY},
    **{f"aten::{name}_": binary for name in _BINARY},
    **{f"aten::{name}": reduction for name in _REDUCTIONS},
}
