"""The cost of a call: what it must compute and move at least."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from faultline.analysis.traces.costs.call import PRECISIONS, Argument, Call

Family = Literal[
    "matrix product",
    "grouped matrix product",
    "convolution",
    "attention",
    "normalization",
    "softmax",
    "embedding",
    "elementwise",
    "reduction",
]
_ON_MATRIX_UNITS: frozenset[Family] = frozenset(
    {"matrix product", "grouped matrix product", "convolution", "attention"}
)


@dataclass(frozen=True)
class Cost:
    """Floating-point operations (a multiplication and an addition are two) and bytes of device
    memory, both at least."""

    family: Family
    flops: int
    bytes: int
    precision: str
    """Of the inputs, as data sheets name it: "bf16", "fp8"; "" where they are no numbers that a
    data sheet knows."""

    @property
    def on_matrix_units(self) -> bool:
        """Whether accelerators have special units for it."""
        return self.family in _ON_MATRIX_UNITS

    @property
    def intensity(self) -> float:
        """FLOPs per byte."""
        return self.flops / self.bytes if self.bytes else 0.0


def precision_of(arguments: Iterable[Argument]) -> str:
    """Of the first tensor that has one."""
    for argument in arguments:
        if (argument.shape or argument.tensors) and argument.type in PRECISIONS:
            return PRECISIONS[argument.type]
    return ""


def cost_from(call: Call, family: Family, flops: int, bytes_moved: int) -> Cost:
    """A cost in the precision of the call's tensors."""
    return Cost(family, flops, bytes_moved, precision_of(call.arguments))
