"""What a finding's details hold of rows and groups of numbers, as tables with bars: one row per
rank, phase, step.

Three shapes are known: a list of objects; an object of objects (rank to values); and objects of
plain values, of which those with the same keys (phases of this rank, phases of the others) share
one table and one scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    """One row; `subject` marks the one the finding speaks of."""

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
        if isinstance(value, Mapping) and value and all(_is_scalar(v) for v in value.values()):
            groups.setdefault(frozenset(value), {})[name] = value
        elif (
            isinstance(value, Mapping)
            and value
            and all(isinstance(v, Mapping) for v in value.values())
        ):
            yield from _of_rows(name, [{name: k, **v} for k, v in value.items()], subject)
        elif isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
            yield from _of_rows(name, value, subject)
    for group in groups.values():
        yield _of_group(group)


def _of_rows(
    name: str, rows: Sequence[Mapping[str, object]], subject: str
) -> Iterator[DetailTable]:
    keys = dict.fromkeys(k for row in rows for k, v in row.items() if _is_scalar(v))
    rank = {column: place for place, column in enumerate(IDENTITIES)}
    columns = sorted(keys, key=lambda k: rank.get(k, len(rank)))[:MAX_COLUMNS]
    scales = {c: _scale([row.get(c) for row in rows]) for c in columns if c not in rank}
    shown = tuple(
        Row(
            tuple(_cell(row.get(c), scales.get(c, 0)) for c in columns),
            any(f"{c} {row[c]}" == subject for c in IDENTITIES if c in row),
        )
        for row in rows[:MAX_ROWS]
    )
    if columns:
        yield DetailTable(name, tuple(columns), shown, len(rows) - len(shown))


def _of_group(group: Mapping[str, Mapping[str, object]]) -> DetailTable:
    """Objects of plain values side by side, largest first."""
    group = dict(sorted(group.items(), key=lambda item: item[0].startswith("others")))
    first = next(iter(group.values()))
    scale = _scale([v for values in group.values() for v in values.values()])
    keys = sorted(first, key=lambda k: -max(_size(values[k]) for values in group.values()))
    rows = tuple(
        Row(
            (Cell(key, None), *(_cell(values[key], scale) for values in group.values())),
            subject=False,
        )
        for key in keys[:MAX_ROWS]
    )
    return DetailTable("", ("", *group), rows, len(keys) - len(rows))


def _scale(values: Sequence[object]) -> float:
    """The largest size of numbers that bars help to compare; 0 when all are equal."""
    sizes = {_size(v) for v in values if _is_number(v)}
    return max(sizes) if len(sizes) > 1 else 0


def _cell(value: object, scale: float) -> Cell:
    return Cell(cell_text(value), _size(value) / scale if scale and _is_number(value) else None)


def _size(value: object) -> float:
    return abs(value) if isinstance(value, (int, float)) and _is_number(value) else 0.0


def _is_number(value: object) -> bool:
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and abs(value) < float("inf")
    )


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))
