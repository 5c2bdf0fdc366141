"""The one way from what an analysis found to rows of JSON values.

A table declares its columns once. Documents, pages, Parquet files and the Python library's frames
have them from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

Rows = list[dict[str, Any]]
Convert = Callable[[Any], Any]


class RowTable:
    """Columns by name, each with its unit in the name (`_ns`, `_us`, `_bytes`, `_percent`, `_gbps`;
    without one it is a count), and rows of them.

    Columns are given as words `name:type`, or `name:type=path` where the value is not the attribute
    of that name: `"kind:text total_ns:int=times.total mean_ns:1=times.mean"`. Types are text, int,
    float, bool, texts, ints, and the digits that a number is rounded to (0 makes it whole). What is
    None stays None.
    """

    def __init__(self, columns: str) -> None:
        self.columns = columns
        self.types: dict[str, str] = {}
        self._convert: dict[str, Convert] = {}
        paths = []
        for word in columns.split():
            column, _, path = word.partition("=")
            name, _, kind = column.partition(":")
            self.types[name] = _type_of(kind)
            self._convert[name] = _converter(kind)
            paths.append(path or name)
        self._values = attrgetter(*paths)

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


def _type_of(kind: str) -> str:
    """The type in frames."""
    if not kind.isdigit():
        return kind
    return "float" if int(kind) else "int"


def _converter(kind: str) -> Convert:
    if kind.isdigit():
        # round(x, None) gives a whole number, round(x, 0) a float.
        digits = int(kind) or None
        return lambda value: None if value is None else round(value, digits)
    return _CONVERTERS.get(kind, _as_it_is)


def _as_it_is(value: Any) -> Any:
    return value


def _int(value: Any) -> Any:
    # Beside the numbers of streams there is "all", and threads have names.
    return value if value is None or isinstance(value, (int, str)) else int(value)


_CONVERTERS: Mapping[str, Convert] = {"int": _int, "texts": list, "ints": list}
