"""The one way from what an analysis found to rows of JSON values.

A table declares its columns once. Documents, pages, Parquet files and the Python library's frames
have them from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from operator import attrgetter
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeVar

import numpy as np

Rows = list[dict[str, Any]]
FrameType = Literal["text", "int", "float", "bool", "texts", "ints"]


class Column(NamedTuple):
    """A column of a table."""

    name: str
    """With its unit (`_ns`, `_us`, `_bytes`, `_percent`, `_gbps`); without one it is a count."""
    path: str
    """The attribute that holds its value, or the attribute of an attribute: `times.total`."""
    type: FrameType
    convert: Callable[[Any], Any]
    """What makes a JSON value of it."""


@dataclass(frozen=True)
class ColumnType:
    """Makes columns: `INT("calls", total_ns="times.total")` are two, the second of which has its
    value from an attribute of another name."""

    name: FrameType
    convert: Callable[[Any], Any] = lambda value: value

    def __call__(self, *names: str, **paths: str) -> tuple[Column, ...]:
        paths = dict(zip(names, names, strict=True)) | paths
        return tuple(Column(name, path, self.name, self.convert) for name, path in paths.items())


def _int(value: Any) -> Any:
    # Beside the numbers of streams there is "all", and threads have names.
    return value if value is None or isinstance(value, (int, str)) else int(value)


TEXT = ColumnType("text")
INT = ColumnType("int", _int)
FLOAT = ColumnType("float")
BOOL = ColumnType("bool")
TEXTS = ColumnType("texts", list)
INTS = ColumnType("ints", list)


def rounded(digits: int, *names: str, **paths: str) -> tuple[Column, ...]:
    """Columns of numbers with that many digits after the point. 0 makes them whole."""

    def convert(value: Any) -> Any:
        # round(x, None) gives a whole number, round(x, 0) a float.
        return None if value is None else round(value, digits or None)

    return ColumnType("float" if digits else "int", convert)(*names, **paths)


class RowTable:
    """Columns, and rows of them: `RowTable(TEXT("kind"), INT("calls"), rounded(1, "mean_ns"))`.
    What is None stays None."""

    def __init__(self, *columns: tuple[Column, ...]) -> None:
        self.columns = tuple(column for part in columns for column in part)
        self.types = {column.name: column.type for column in self.columns}
        self._convert = {column.name: column.convert for column in self.columns}
        self._values = attrgetter(*(column.path for column in self.columns))

    def rows(self, objects: Iterable[object]) -> Rows:
        """One row for each object, of its attributes."""
        return self.of(map(self._values, objects))

    def of(self, records: Iterable[Iterable[Any]]) -> Rows:
        """One row for each series of values, which are in the columns' order."""
        columns = tuple(self._convert.items())
        rows = []
        for values in records:
            pairs = zip(columns, values, strict=True)
            rows.append({name: convert(value) for (name, convert), value in pairs})
        return rows

    def row(self, **values: Any) -> dict[str, Any]:
        """A row of some columns, for tables in which not every row has all."""
        return {name: self._convert[name](value) for name, value in values.items()}


# What several analyses of one trace need is computed once, and kept with the trace.

# The columns themselves use this too, so their type is not named here.
Trace = TypeVar("Trace")
P = ParamSpec("P")
R = TypeVar("R")
PLACE = "_kept"


def cached_per_trace(
    function: Callable[Concatenate[Trace, P], R],
) -> Callable[Concatenate[Trace, P], R]:
    """The function, which computes each result once for each trace and its other arguments.

    For pure functions whose results nobody changes: arrays become read-only. The other arguments
    must be hashable; dataclasses of arrays are, where they are compared by identity.
    """

    @wraps(function)
    def once(trace: Trace, /, *more: P.args, **named: P.kwargs) -> R:
        results: dict[Any, R] = trace.__dict__.setdefault(PLACE, {})
        key = (function, more, tuple(sorted(named.items())))
        if key not in results:
            result = results[key] = function(trace, *more, **named)
            if isinstance(result, np.ndarray):
                result.setflags(write=False)
        return results[key]

    return once
