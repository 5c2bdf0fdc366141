"""One call of an operator as a trace tells it, what it must compute and move at least, and what an
accelerator can do at most.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, Literal

# One call of an operator as a trace tells it: the shapes, types and values of its arguments.

Shape = tuple[int, ...]

BYTES = {
    "c10::BFloat16": 2,
    "c10::Half": 2,
    "half": 2,
    "float": 4,
    "double": 8,
    "c10::Float8_e4m3fn": 1,
    "c10::Float8_e5m2": 1,
    "c10::Float8_e4m3fnuz": 1,
    "c10::Float8_e5m2fnuz": 1,
    "c10::Float8_e8m0fnu": 1,
    "c10::Float4_e2m1fn_x2": 1,
    "signed char": 1,
    "unsigned char": 1,
    "bool": 1,
    "short int": 2,
    "int": 4,
    "long int": 8,
    "c10::complex<float>": 8,
    "c10::complex<double>": 16,
}
"""Bytes of an element by the type's name in "Input type"."""

PRECISIONS = {
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "half": "fp16",
    "float": "fp32",
    "double": "fp64",
    "c10::complex<float>": "fp32",
    "c10::complex<double>": "fp64",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e5m2": "fp8",
    "c10::Float8_e4m3fnuz": "fp8",
    "c10::Float8_e5m2fnuz": "fp8",
    "c10::Float4_e2m1fn_x2": "fp4",
    "signed char": "int8",
    "unsigned char": "int8",
}
"""What a data sheet gives a peak for."""

MAX_NESTING = 3
"""Lists in lists that a shape may have: a list of tensors has two."""


@dataclass(frozen=True)
class Argument:
    """One argument: a tensor, a list of tensors, or a value."""

    shape: Shape = ()
    """() for what is no tensor, and for a tensor of one element."""
    tensors: tuple[Shape, ...] = ()
    """The shapes of a list of tensors."""
    type: str = ""
    value: str = ""
    """As the trace writes it: "True", "[1, 1]"; "" for tensors and for what was not recorded."""

    @property
    def elements(self) -> int:
        """Of the tensor, or of all tensors of the list."""
        return sum(map(prod, self.tensors)) if self.tensors else prod(self.shape)

    @property
    def item_bytes(self) -> int:
        """Bytes of one element; 0 for what is no tensor."""
        return BYTES.get(self.type, 0)

    @property
    def bytes(self) -> int:
        """Of the whole tensor; 0 for what is no tensor."""
        return self.elements * self.item_bytes

    @property
    def numbers(self) -> tuple[int, ...]:
        """The value as a list of whole numbers; () where it is none."""
        try:
            content = json.loads(self.value)
        except ValueError:
            return ()
        content = content if isinstance(content, list) else [content]
        # bool is an int in Python, but True is no number of a list such as a stride.
        whole = [n for n in content if isinstance(n, int) and not isinstance(n, bool)]
        return tuple(whole) if len(whole) == len(content) else ()


NOTHING = Argument()


@dataclass(frozen=True)
class Call:
    """An operator's name and its arguments, in the order of its signature."""

    name: str
    arguments: tuple[Argument, ...]

    def at(self, place: int) -> Argument:
        """An argument that may be missing: older traces record fewer."""
        return self.arguments[place] if place < len(self.arguments) else NOTHING

    def shape(self, place: int, dimensions: int | None = None) -> Shape:
        """The shape of a tensor. Raises Unknown where it is none, or of other dimensions."""
        shape = self.at(place).shape
        if not shape or (dimensions is not None and len(shape) != dimensions):
            raise Unknown(f"argument {place} of {self.name} is {list(shape)}")
        return shape


class Unknown(Exception):
    """The trace does not tell what the cost depends on."""


@lru_cache(maxsize=8192)
def call_of(name: str, dims: str, types: str, values: str) -> Call | None:
    """From the texts of "Input Dims", "Input type" and "Concrete Inputs"; None where the first is
    missing or makes no sense. The texts are hostile."""
    shapes = _list(dims)
    if not shapes:
        return None
    names, concrete = _list(types), _list(values)
    arguments = []
    for place, shape in enumerate(shapes):
        type_name = names[place] if place < len(names) else ""
        value = concrete[place] if place < len(concrete) else ""
        arguments.append(_argument(shape, _text(type_name), _text(value)))
    return Call(name, tuple(arguments))


def _argument(shape: Any, type_name: str, value: str) -> Argument:
    # A list of lists holds the shapes of a list of tensors.
    if isinstance(shape, list) and shape and all(isinstance(part, list) for part in shape):
        return Argument(tensors=tuple(map(_shape, shape)), type=type_name, value=value)
    return Argument(_shape(shape), type=type_name, value=value)


def _shape(dims: Any) -> Shape:
    numbers = dims if isinstance(dims, list) else []
    whole = [n for n in numbers if isinstance(n, int) and not isinstance(n, bool) and n >= 0]
    return tuple(whole) if len(whole) == len(numbers) else ()


def _list(text: str) -> Sequence[Any]:
    # Count the brackets before parsing: hostile text must not nest without bound.
    if not text.startswith("[") or "[" * (MAX_NESTING + 1) in text:
        return []
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return content if isinstance(content, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


# The cost of a call: what it must compute and move at least.

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


# What an accelerator can do at most: `accelerators.toml` beside this file, with its sources.

GB = 1e9


@dataclass(frozen=True)
class Accelerator:
    """Peaks of one device, without sparsity."""

    name: str
    """As the trace names it."""
    tflops: Mapping[str, float]
    """TFLOP/s by precision."""
    tb_s: float
    """Of the device's memory."""
    link_gb_s: float | None
    """To all other devices of its host together, in one direction; None where the data sheet has no
    such link."""
    link: str
    """ "NVLink" or "Infinity Fabric"."""
    link_peers: int | None
    """Devices that the link is divided between, where no switch lets one use all of it."""
    source: str
    """The data sheet."""

    def link_peak(self, ranks: int) -> float | None:
        """GB/s in one direction within a group of that many devices of a host; None where not
        known."""
        # Through a switch even two devices use the whole link.
        if self.link_gb_s is None or self.link_peers is None:
            return self.link_gb_s
        return self.link_gb_s * min(max(ranks - 1, 1) / self.link_peers, 1.0)

    def peak_tflops(self, cost: Cost, *, matrix_units: bool) -> float | None:
        """For a cost; `matrix_units` says whether its kernels use them. Operators without special
        units compute in float32. None where the data sheet has no figure."""
        if not cost.on_matrix_units:
            return self.tflops.get("fp64" if cost.precision == "fp64" else "fp32")
        if cost.precision == "fp32" and matrix_units:
            # Matrix units run float32 products as TF32 where the data sheet has it.
            return self.tflops.get("tf32", self.tflops.get("fp32_matrix", self.tflops.get("fp32")))
        if cost.precision == "fp32":
            return self.tflops.get("fp32_matrix", self.tflops.get("fp32"))
        return self.tflops.get(cost.precision)

    def floor_ns(self, cost: Cost, *, matrix_units: bool) -> tuple[float | None, str]:
        """The least time that a cost takes, and whether "compute" or "memory" sets it; (None, "")
        where the peak is unknown."""
        peak = self.peak_tflops(cost, matrix_units=matrix_units)
        if peak is None:
            return None, ""
        # TFLOP/s and TB/s are operations and bytes per picosecond; / 1e3 gives ns.
        computing, moving = cost.flops / peak / 1e3, cost.bytes / self.tb_s / 1e3
        return max((computing, "compute"), (moving, "memory"))


def accelerator_of(header: Mapping[str, Any]) -> Accelerator | None:
    """Of the first device in a trace's `deviceProperties`; None where it is not in the table."""
    devices = header.get("deviceProperties")
    first = devices[0] if isinstance(devices, list) and devices else None
    if not isinstance(first, dict) or not isinstance(first.get("name"), str):
        return None
    memory = first.get("totalGlobalMem")
    memory_gb = memory / GB if isinstance(memory, (int, float)) else None
    return accelerator_named(first["name"], memory_gb)


def accelerator_named(name: str, memory_gb: float | None = None) -> Accelerator | None:
    """By the device's name. Where its memory is not known, the name is searched for it."""
    if memory_gb is None:
        match = re.search(r"(\d+) ?GB", name)
        memory_gb = float(match[1]) if match else 0.0
    for pattern, least_gb, figures in _entries():
        if pattern.search(name) and memory_gb >= least_gb:
            return Accelerator(
                name[:100],
                figures["tflops"],
                figures["tb_s"],
                figures.get("link_gb_s"),
                figures.get("link", "NVLink"),
                figures.get("link_peers"),
                figures["source"],
            )
    return None


@lru_cache(maxsize=1)
def _entries() -> tuple[tuple[re.Pattern[str], float, dict[str, Any]], ...]:
    """(pattern, least memory, figures) in the order of the file."""
    table = tomllib.loads(Path(__file__).with_name("accelerators.toml").read_text())
    return tuple(
        (re.compile(entry["pattern"]), entry.get("memory_gb", 0.0), entry)
        for entry in table["accelerator"]
    )
