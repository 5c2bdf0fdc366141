"""Run by PyTorch's Python: profiles some operators into the trace that is named, and prints the
FLOPs of each as PyTorch's `FlopCounterMode` counts them."""

from __future__ import annotations

import json
import sys

import torch
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode


def operators() -> None:
    """Forward and backward passes of what a cost is known for; convolutions without bias, which
    `FlopCounterMode` would leave out."""
    a, b = torch.randn(17, 33, requires_grad=True), torch.randn(33, 29, requires_grad=True)
    torch.mm(a, b).sum().backward()
    torch.addmm(torch.randn(29), a, b).sum().backward()
    c, d = torch.randn(3, 17, 33, requires_grad=True), torch.randn(3, 33, 5, requires_grad=True)
    torch.bmm(c, d).sum().backward()
    torch.baddbmm(torch.randn(3, 17, 5), c, d).sum().backward()
    image = torch.randn(2, 8, 30, 31, requires_grad=True)
    weight, grouped = torch.randn(12, 8, 3, 5, requires_grad=True), torch.randn(12, 4, 3, 5)
    shape = {"stride": (2, 1), "padding": (1, 2), "dilation": (2, 1)}
    functional.conv2d(image, weight, **shape).sum().backward()
    # Forward alone: of the gradient of grouped weights it counts as many times too much as there
    # are groups (torch 2.13).
    functional.conv2d(image.detach(), grouped, groups=2, **shape)
    turned = torch.randn(8, 6, 3, 3, requires_grad=True)
    functional.conv_transpose2d(image, turned, stride=2, padding=1).sum().backward()
    line, short = torch.randn(2, 8, 50), torch.randn(4, 8, 7)
    functional.conv1d(line, short, padding=3)
    query = torch.randn(2, 4, 64, 32, requires_grad=True)
    functional.scaled_dot_product_attention(query, query, query)


def main() -> None:
    """Twice: once counted, once profiled."""
    torch.manual_seed(0)
    counter = FlopCounterMode(display=False)
    with counter:
        operators()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        operators()
    recorded.export_chrome_trace(sys.argv[1])
    total = counter.get_flop_counts()["Global"]
    print(json.dumps({str(op).replace("aten.", "aten::"): count for op, count in total.items()}))


if __name__ == "__main__":
    main()
