"""What a finding's details hold of rows and groups of numbers, as tables with bars: one row per
rank, phase, step.

Three shapes are known: a list of objects; an object of objects (rank to values); and objects of
plain values, of which those with the same keys (phases of this rank, phases of the others) share
one table and one scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.wording.phrases import number

IDENTITIES = ("rank", "host", "node", "device", "step", "stream", "service", "operation")
"""Columns that name a row: they come first and get no bars."""
MAX_ROWS = 128
MAX_COLUMNS = 8
MAX_TABLES = 6


@dataclass(frozen=True)
class Cell:
    """One value; `share` in [0, 1] of the column's largest value makes a bar."""

    text: str
    share: float | None


@dataclass(frozen=True)
class Row:
    """One row; `subject` marks the one the finding is about."""

    cells: tuple[Cell, ...]
    subject: bool


@dataclass(frozen=True)
class DetailTable:
    """A table; `left_out` rows did not fit."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    left_out: int


def detail_tables(details: Mapping[str, Any], subject: str) -> tuple[DetailTable, ...]:
    """The tables of one finding, in the order of its details."""
    return tuple(_tables(details, subject))[:MAX_TABLES]


def cell_text(value: object) -> str:
    """One plain value in a few digits."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, float) else str(value)


def _tables(details: Mapping[str, Any], subject: str) -> Iterator[DetailTable]:
    groups: dict[frozenset[str], dict[str, Mapping[str, object]]] = {}
    for name, value in details.items():
        if not value:
            continue
        if isinstance(value, list) and _all_mappings(value):
            yield from _of_rows(name, value, subject)
        if not isinstance(value, Mapping):
            continue
        if all(_is_scalar(one) for one in value.values()):
            groups.setdefault(frozenset(value), {})[name] = value
        elif _all_mappings(value.values()):
            # The keys name the rows, as ranks do, so that they become the first column.
            rows = [{name: key, **one} for key, one in value.items()]
            yield from _of_rows(name, rows, subject)
    for group in groups.values():
        yield _of_group(group)


def _of_rows(
    name: str, rows: Sequence[Mapping[str, object]], subject: str
) -> Iterator[DetailTable]:
    columns = _columns(rows)
    if not columns:
        return
    scales = {c: _scale([row.get(c) for row in rows]) for c in columns if c not in IDENTITIES}
    shown = []
    for row in rows[:MAX_ROWS]:
        cells = tuple(_cell(row.get(column), scales.get(column, 0)) for column in columns)
        shown.append(Row(cells, _is_about(row, subject)))
    yield DetailTable(name, columns, tuple(shown), len(rows) - len(shown))


def _columns(rows: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    """Those that name a row first, the others in the order in which they come up."""
    names: dict[str, None] = {}
    for row in rows:
        for name, value in row.items():
            if _is_scalar(value):
                names[name] = None
    identities = [name for name in IDENTITIES if name in names]
    others = [name for name in names if name not in IDENTITIES]
    return tuple([*identities, *others][:MAX_COLUMNS])


def _is_about(row: Mapping[str, object], subject: str) -> bool:
    return any(f"{name} {row[name]}" == subject for name in IDENTITIES if name in row)


def _of_group(group: Mapping[str, Mapping[str, object]]) -> DetailTable:
    """Objects of plain values side by side, largest first."""
    # What the others did is compared with what comes before it: the last column.
    names = sorted(group, key=lambda name: name.startswith("others"))
    columns = [group[name] for name in names]
    every_value: list[object] = []
    for column in columns:
        every_value += column.values()
    scale = _scale(every_value)

    def largest(key: str) -> float:
        return max(_size(column[key]) for column in columns)

    keys = sorted(columns[0], key=largest, reverse=True)
    rows = []
    for key in keys[:MAX_ROWS]:
        cells = [_cell(column[key], scale) for column in columns]
        rows.append(Row((Cell(key, None), *cells), subject=False))
    return DetailTable("", ("", *names), tuple(rows), len(keys) - len(rows))


def _scale(values: Sequence[object]) -> float:
    """The largest size of numbers that bars help to compare; 0 when all are equal."""
    sizes = {_size(v) for v in values if _is_number(v)}
    return max(sizes) if len(sizes) > 1 else 0


def _cell(value: object, scale: float) -> Cell:
    share = _size(value) / scale if scale and _is_number(value) else None
    return Cell(cell_text(value), share)


def _size(value: object) -> float:
    return abs(value) if isinstance(value, (int, float)) and _is_number(value) else 0.0


def _is_number(value: object) -> bool:
    # True and False are ints.
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < float("inf")


def _all_mappings(values: Iterable[object]) -> bool:
    return all(isinstance(value, Mapping) for value in values)


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))
