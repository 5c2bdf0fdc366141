"""Which rows of a table keep to its schema: one bad value costs its row, never the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import polars as pl

from faultline.analysis.errors import EvidenceError

TIME = pl.Datetime("ns", "UTC")
NULLABLE = frozenset({"service", "parent_id", "value", "title", "diff", "message"})
"""Required columns in which a null is data: a log line of no service, a root span, a missing
point."""
MAY_BE_BLANK = frozenset({"operation", "state"})
"""Required texts that vendors leave empty without harm."""
EARLIEST, LATEST = datetime(1971, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
"""Seconds or milliseconds that are taken for nanoseconds lie in 1970."""
LONGEST_TEXT = 1024 * 1024
"""Bytes: four times the longest line that Loki takes by default (`max_line_size`, 256 KiB)."""
SHOWN = 80
NESTED = (pl.List, pl.Array, pl.Struct, pl.Object)
NOT_FINITE = "is not a finite number"


@dataclass(frozen=True)
class TableSchema:
    """Required and optional columns of one table, by name."""

    name: str
    required: Mapping[str, pl.DataType]
    optional: Mapping[str, pl.DataType]
    added: Mapping[str, pl.DataType] = field(default_factory=dict)
    """Columns that no connector fills: they are known once the rows of all are together."""

    @property
    def columns(self) -> dict[str, pl.DataType]:
        """The columns of what a connector brings, in their canonical order."""
        return {**self.required, **self.optional}

    @property
    def stored(self) -> dict[str, pl.DataType]:
        """All columns of a case's table."""
        return {**self.columns, **self.added}


@dataclass(frozen=True)
class RefusedRows:
    """Rows that cannot be read for one reason, and the first of them (1-based)."""

    why: str
    rows: int
    first: int
    as_null: bool = False
    """Whether they are points without a number: they stay in the table, with a null for it."""

    @property
    def where(self) -> str:
        """The row, or the first of several."""
        return f"row {self.first}" if self.rows == 1 else f"first in row {self.first}"


@dataclass(frozen=True)
class ReadableRows:
    """The rows of a table that keep to its schema, and why others do not."""

    rows: pl.DataFrame
    refused: tuple[RefusedRows, ...] = ()

    @property
    def total(self) -> int:
        """The rows that there were."""
        left_out = [refusal.rows for refusal in self.refused if not refusal.as_null]
        return self.rows.height + sum(left_out)


@dataclass(frozen=True)
class _Column:
    """A column as it was given and as the schema wants it."""

    name: str
    raw: pl.Series
    cast: pl.Series
    required: bool


def readable_rows(
    table: pl.DataFrame, schema: TableSchema, file: str, refused: tuple[RefusedRows, ...] = ()
) -> ReadableRows:
    """Cast to the schema, add absent optional columns as nulls, drop unknown columns and the rows
    with a value that cannot be read. `refused` are rows that are not in the table at all.

    Raises EvidenceError where a required column is missing.
    """
    for column in schema.required:
        if column not in table.columns:
            needed = ", ".join(schema.required)
            raise EvidenceError(file, f"column {column!r} is missing; needed: {needed}")
    wrong = pl.repeat(value=False, n=table.height, dtype=pl.Boolean(), eager=True)
    series: list[pl.Series] = []
    refusals = list(refused)
    for name, dtype in schema.stored.items():
        if name not in table.columns:
            series.append(pl.Series(name, [None], dtype=dtype).new_from_index(0, table.height))
            continue
        cast = _cast(table[name], dtype).alias(name)
        stored_column = _Column(name, table[name], cast, name in schema.required)
        for mask, why in _faults(stored_column):
            if not mask.any():
                continue
            # Count a row only for the first of its bad values.
            new = (mask & ~wrong).fill_null(value=False)
            if not new.any():
                continue
            as_null = why == NOT_FINITE and name in NULLABLE
            refusals.append(_refused(stored_column, new, why, as_null=as_null))
            if as_null:
                cast = cast.set(new, None)
            else:
                wrong = wrong | new
        series.append(cast)
    rows = pl.DataFrame(series) if table.height else pl.DataFrame(schema=schema.stored)
    return ReadableRows(rows.filter(~wrong) if wrong.any() else rows, tuple(refusals))


def _faults(column: _Column) -> Iterator[tuple[pl.Series, str]]:
    """Masks of the rows with a bad value of the column, each with the reason."""
    name, raw, cast = column.name, column.raw, column.cast
    if cast.null_count() > raw.null_count():
        yield cast.is_null() & raw.is_not_null(), f"is not a {_word(cast.dtype)}"
    needs_value = column.required and name not in NULLABLE
    if needs_value and cast.null_count():
        yield cast.is_null(), "is empty"
    if cast.dtype == pl.String:
        if needs_value and name not in MAY_BE_BLANK:
            yield cast.str.strip_chars() == "", "is empty"
        yield cast.str.len_bytes() > LONGEST_TEXT, f"is longer than {LONGEST_TEXT:,} bytes"
    elif cast.dtype == pl.Float64:
        yield ~cast.is_finite(), NOT_FINITE
        if name == "duration_us":
            yield cast < 0, "is negative"
    elif cast.dtype == TIME:
        yield ~((cast >= EARLIEST) & (cast < LATEST)), f"lies outside {EARLIEST:%Y} to {LATEST:%Y}"


def _refused(column: _Column, mask: pl.Series, why: str, *, as_null: bool) -> RefusedRows:
    first = int(mask.arg_true()[0])
    value = column.raw.slice(first, 1).to_list()[0]
    text = "" if value is None else str(value)
    shown = f" {text[:SHOWN]!r}" if text else ""
    return RefusedRows(f"{column.name}{shown} {why}", int(mask.sum()), first + 1, as_null)


def _cast(values: pl.Series, dtype: pl.DataType) -> pl.Series:
    try:
        return _cast_plain(values, dtype)
    except (pl.exceptions.PolarsError, OverflowError):
        # A type that has no form of this kind at all, such as a list for a time.
        return pl.Series(values.name, [None], dtype=dtype).new_from_index(0, len(values))


def _cast_plain(values: pl.Series, dtype: pl.DataType) -> pl.Series:
    if isinstance(values.dtype, NESTED):
        # Polars casts what is within them, and the column would stay nested.
        texts = [None if value is None else str(value) for value in values.to_list()]
        if dtype != pl.String:
            texts = [None] * len(texts)
        return pl.Series(values.name, texts, dtype=dtype)
    if dtype == TIME:
        if values.dtype == pl.String:
            return _parse_times(values)
        if isinstance(values.dtype, pl.Datetime) and values.dtype.time_zone is None:
            return values.dt.cast_time_unit("ns").dt.replace_time_zone("UTC")
        if values.dtype.is_integer():
            return values.cast(pl.Int64).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
        if isinstance(values.dtype, pl.Datetime):
            return values.dt.cast_time_unit("ns").dt.convert_time_zone("UTC")
    return values.cast(dtype, strict=False)


def _parse_times(values: pl.Series) -> pl.Series:
    text = values.str.replace(r"[Zz]$", "+00:00").str.replace(r"^(\d{4}-\d\d-\d\d) ", "${1}T")
    with_zone = text.str.to_datetime(
        "%Y-%m-%dT%H:%M:%S%.f%:z", time_unit="ns", time_zone="UTC", strict=False
    )
    if with_zone.null_count() == text.null_count():
        return with_zone
    naive = text.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="ns", strict=False)
    # One bad value makes texts of the other numbers in a column of JSON lines.
    numbers = values.cast(pl.Int64, strict=False).cast(pl.Datetime("ns"))
    fill_null = with_zone.fill_null(naive.dt.replace_time_zone("UTC"))
    return fill_null.fill_null(numbers.dt.replace_time_zone("UTC"))


def _word(dtype: pl.DataType) -> str:
    if dtype == TIME:
        return "time"
    return "number" if dtype == pl.Float64 else "text"
