"""Convolutions: two operations for each weight and output position.

Forward and backward as TraceLens and PyTorch's `FlopCounterMode` count them: the gradients of input
and of weight cost as much as the forward pass each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from faultline.analysis.traces.costs.call import Call, Cost, Shape, Unknown, cost_from


def convolution(call: Call) -> Cost:
    """aten::convolution (input, weight, bias, stride, padding, dilation, transposed,
    output_padding, groups)."""
    return _forward(call, stride=3, padding=4, dilation=5, groups=8, transposed=6, extra=7)


def cudnn_convolution(call: Call) -> Cost:
    """aten::cudnn_convolution (input, weight, padding, stride, dilation, groups)."""
    return _forward(call, stride=3, padding=2, dilation=4, groups=5, bias=None)


def miopen_convolution(call: Call) -> Cost:
    """aten::miopen_convolution (input, weight, bias, padding, stride, dilation, groups)."""
    return _forward(call, stride=4, padding=3, dilation=5, groups=6)


def _forward(
    call: Call,
    *,
    stride: int,
    padding: int,
    dilation: int,
    groups: int,
    bias: int | None = 2,
    transposed: int | None = None,
    extra: int | None = None,
) -> Cost:
    shape, weight = call.shape(0), call.shape(1, len(call.shape(0)))
    turned = transposed is not None and call.at(transposed).value == "True"
    parts = call.at(groups).numbers
    if not parts or parts[0] < 1:
        raise Unknown(f"groups of {call.name}")
    space = len(shape) - 2
    steps = _per_dimension(call, stride, space)
    pads = _per_dimension(call, padding, space)
    spread = _per_dimension(call, dilation, space)
    if turned:
        more = _per_dimension(call, extra or 0, space)
        # The same for ConvTranspose2d.
        out = tuple(
            (s - 1) * step - 2 * p + d * (k - 1) + e + 1
            for s, k, step, p, d, e in zip(
                shape[2:], weight[2:], steps, pads, spread, more, strict=True
            )
        )
        positions, channels = prod(shape[2:]), weight[1] * parts[0]
        weights_used = prod(weight)
    else:
        # The output's size, as PyTorch documents it for Conv2d.
        out = tuple(
            (s + 2 * p - d * (k - 1) - 1) // max(step, 1) + 1
            for s, k, step, p, d in zip(shape[2:], weight[2:], steps, pads, spread, strict=True)
        )
        positions, channels = prod(out), weight[0]
        weights_used = prod(weight)
    flops = 2 * shape[0] * positions * weights_used
    elements = shape[0] * channels * prod(out)
    moved = call.at(0).bytes + call.at(1).bytes + elements * call.at(0).item_bytes
    if bias is not None and call.at(bias).shape:
        flops += elements
        moved += call.at(bias).bytes
    return cost_from(call, "convolution", flops, moved)


def backward(call: Call) -> Cost:
    """aten::convolution_backward (grad_output, input, weight, ..., output_mask)."""
    grad, shape, weight = call.shape(0), call.shape(1), call.shape(2)
    if not len(grad) == len(shape) == len(weight):
        raise Unknown(f"{call.name} of {grad}, {shape} and {weight}")
    turned = call.at(7).value == "True"
    positions = prod((shape if turned else grad)[2:])
    once = 2 * grad[0] * positions * prod(weight)
    flops = moved = 0
    tensors = sum(call.at(place).bytes for place in (0, 1, 2))
    # Which gradients were asked for: "[True, True, False]"; of input and weight, where the trace
    # does not say.
    words = [word.strip() == "True" for word in call.at(10).value.strip("[]").split(",")]
    of_input, of_weight, of_bias = (
        (words[0], words[1], words[2]) if len(words) == 3 else (True, True, False)
    )
    for needs_gradient in (of_input, of_weight):
        if needs_gradient:
            # It reads two of grad_output, input and weight, and writes the gradient of the third.
            flops += once
            moved += tensors
    if of_bias:
        flops += prod(grad)
        moved += call.at(0).bytes + grad[1] * call.at(0).item_bytes
    return cost_from(call, "convolution", flops, moved)


def _per_dimension(call: Call, place: int, space: int) -> Shape:
    """A value for each dimension of space; one stands for all."""
    numbers = call.at(place).numbers
    if len(numbers) == 1:
        return numbers * space
    if len(numbers) != space:
        raise Unknown(f"argument {place} of {call.name}")
    return numbers


COSTS: Mapping[str, Callable[[Call], Cost]] = {
    "aten::convolution": convolution,
    "aten::cudnn_convolution": cudnn_convolution,
    "aten::miopen_convolution": miopen_convolution,
    "aten::convolution_backward": backward,
}
