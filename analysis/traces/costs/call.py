"""One call of an operator as a trace tells it: the shapes, types and values of its arguments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

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
