"""What a finding's details hold of rows and groups of numbers, as tables for people: one row per
rank, phase, step; names and units as people say them, and bars where sizes are to be compared.

Three shapes are known: a list of objects, an object of objects (rank to values), and objects of
plain values. Objects of plain values with the same keys (phases of this rank, phases of the others)
share one table and one scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faultline.bot.web.detail_quantities import DetailQuantity, is_number, quantity_of, value_text

IDENTITIES = (
    "rank",
    "host",
    "node",
    "device",
    "step",
    "stream",
    "service",
    "operation",
    "name",
    "event",
)
"""Columns that name a row: they come first and get no bars."""
MAX_ROWS = 128
MAX_COLUMNS = 8
MAX_TABLES = 6


@dataclass(frozen=True)
class TableColumn:
    """A heading; numbers stand right-aligned below it."""

    label: str
    is_number: bool


@dataclass(frozen=True)
class Cell:
    """One value; `share` in [0, 1] of the column's largest value makes a bar."""

    text: str
    share: float | None
    is_number: bool


@dataclass(frozen=True)
class Row:
    """One row; `subject` marks the one the finding is about."""

    cells: tuple[Cell, ...]
    subject: bool


@dataclass(frozen=True)
class DetailTable:
    """A table; `left_out` rows did not fit."""

    name: str
    columns: tuple[TableColumn, ...]
    rows: tuple[Row, ...]
    left_out: int


def detail_tables(details: Mapping[str, Any], subject: str) -> tuple[DetailTable, ...]:
    """The tables of one finding, in the order of its details."""
    return tuple(_tables(details, subject))[:MAX_TABLES]


def _tables(details: Mapping[str, Any], subject: str) -> Iterator[DetailTable]:
    groups: dict[frozenset[str], dict[str, Mapping[str, object]]] = {}
    for name, value in details.items():
        if not value:
            continue
        if isinstance(value, list) and _all_mappings(value):
            yield from _of_rows(name, value, subject)
        if not isinstance(value, Mapping):
            continue
        if all(_is_scalar(field_value) for field_value in value.values()):
            groups.setdefault(frozenset(value), {})[name] = value
        elif _all_mappings(value.values()):
            # The keys name the rows, as ranks do, so that they become the first column.
            rows = [{name: key, **row} for key, row in value.items()]
            yield from _of_rows(name, rows, subject)
    for group in groups.values():
        yield _of_group(group)


def _of_rows(
    name: str, rows: Sequence[Mapping[str, object]], subject: str
) -> Iterator[DetailTable]:
    names = _columns(rows)
    if not names:
        return
    quantities = [_of_column(name, rows) for name in names]
    scales = []
    for column, quantity in zip(names, quantities, strict=True):
        values = [row.get(column) for row in rows]
        scales.append(_scale(values) if quantity.compares else 0.0)
    # Where all rows are about the subject, nothing stands out.
    stands_out = not all(_is_about(row, subject) for row in rows)
    shown = []
    for row in rows[:MAX_ROWS]:
        cells = []
        for column, quantity, scale in zip(names, quantities, scales, strict=True):
            cells.append(_cell(row.get(column), quantity, scale))
        shown.append(Row(tuple(cells), _is_about(row, subject) and stands_out))
    columns = tuple(TableColumn(quantity.label, quantity.is_number) for quantity in quantities)
    yield DetailTable(name, columns, tuple(shown), len(rows) - len(shown))


def _of_column(name: str, rows: Sequence[Mapping[str, object]]) -> DetailQuantity:
    quantity = quantity_of(name, [row.get(name) for row in rows])
    return quantity.as_identity() if name in IDENTITIES else quantity


def _columns(rows: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    """Those that name a row first, the others in the order in which they come up."""
    names: dict[str, None] = {}
    for row in rows:
        for name, value in row.items():
            if _is_scalar(value):
                names[name] = None
    identities = [name for name in IDENTITIES if name in names]
    other_names = [name for name in names if name not in IDENTITIES]
    return tuple([*identities, *other_names][:MAX_COLUMNS])


def _is_about(row: Mapping[str, object], subject: str) -> bool:
    return any(f"{name} {row[name]}" == subject for name in IDENTITIES if name in row)


def _of_group(group: Mapping[str, Mapping[str, object]]) -> DetailTable:
    """Objects of plain values side by side, largest first."""
    # The others come last, because the columns before are compared with them.
    names = sorted(group, key=lambda name: name.startswith("others"))
    groups = [group[name] for name in names]
    quantities = [quantity_of(name, list(group[name].values())) for name in names]
    every_value: list[object] = []
    for column in groups:
        every_value += column.values()
    compares = all(quantity.compares for quantity in quantities)
    scale = _scale(every_value) if compares else 0.0

    def largest(key: str) -> float:
        return max(_size(group[key]) for group in groups)

    keys = sorted(groups[0], key=largest, reverse=True)
    rows = []
    for key in keys[:MAX_ROWS]:
        cells = [Cell(key, None, is_number=False)]
        for column, quantity in zip(groups, quantities, strict=True):
            cells.append(_cell(column[key], quantity, scale))
        rows.append(Row(tuple(cells), subject=False))
    columns = [TableColumn("", is_number=False)]
    for quantity in quantities:
        columns.append(TableColumn(quantity.label, quantity.is_number))
    return DetailTable("", tuple(columns), tuple(rows), len(keys) - len(rows))


def _scale(values: Sequence[object]) -> float:
    """The largest size of numbers that bars help to compare; 0 when all are equal."""
    sizes = {_size(v) for v in values if is_number(v)}
    return max(sizes) if len(sizes) > 1 else 0


def _cell(value: object, quantity: DetailQuantity, scale: float) -> Cell:
    share = _size(value) / scale if scale and is_number(value) else None
    return Cell(value_text(value, quantity), share, quantity.is_number)


def _size(value: object) -> float:
    return abs(value) if isinstance(value, (int, float)) and is_number(value) else 0.0


def _all_mappings(values: Iterable[object]) -> bool:
    return all(isinstance(value, Mapping) for value in values)


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))
