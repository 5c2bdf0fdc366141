"""The tables of a case folder: their columns, and reading them from Parquet, CSV or JSON lines.

Times are `Datetime("ns", "UTC")`. A table that breaks its schema raises `EvidenceError` naming file
and row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from analysis.errors import EvidenceError

TIME = pl.Datetime("ns", "UTC")


@dataclass(frozen=True)
class TableSchema:
    """Required and optional columns of one table, by name, and the columns that must not be
    null."""

    name: str
    required: Mapping[str, pl.DataType]
    optional: Mapping[str, pl.DataType]

    @property
    def columns(self) -> dict[str, pl.DataType]:
        """All columns in their canonical order."""
        return {**self.required, **self.optional}


_S = pl.String()
_F = pl.Float64()

METRICS = TableSchema(
    "metrics", {"time": TIME, "service": _S, "signal": _S, "value": _F}, {"unit": _S, "labels": _S}
)
LOGS = TableSchema(
    "logs",
    {"time": TIME, "service": _S, "message": _S},
    {"level": _S, "trace_id": _S, "attributes": _S},
)
SPANS = TableSchema(
    "spans",
    {
        "trace_id": _S,
        "span_id": _S,
        "parent_id": _S,
        "service": _S,
        "operation": _S,
        "start": TIME,
        "duration_us": _F,
    },
    {"status": _S, "attributes": _S},
)
CHANGES = TableSchema(
    "changes",
    {"time": TIME, "service": _S, "kind": _S, "id": _S, "title": _S},
    {"author": _S, "link": _S, "files": _S, "diff": _S},
)
TOPOLOGY = TableSchema("topology", {"caller": _S, "callee": _S}, {})
MONITORS = TableSchema(
    "monitors", {"monitor": _S, "service": _S, "state": _S, "since": TIME}, {"link": _S}
)

SCHEMAS: dict[str, TableSchema] = {
    s.name: s for s in (METRICS, LOGS, SPANS, CHANGES, TOPOLOGY, MONITORS)
}

NULLABLE = {"service", "parent_id", "value", "title", "diff", "message"}
"""Required columns in which a null is data: a log line of no service, a root span, a missing
point."""


def empty(name: str) -> pl.DataFrame:
    """The table without rows."""
    return pl.DataFrame(schema=SCHEMAS[name].columns)


def read_table(folder: Path, name: str) -> pl.DataFrame:
    """Table `name` of the case folder with all its columns; empty when no file of that name is
    there."""
    for suffix, reader in (
        (".parquet", _read_parquet),
        (".csv", _read_csv),
        (".jsonl", _read_json_lines),
    ):
        path = folder / f"{name}{suffix}"
        if path.exists():
            rows = reader(path)
            return conform(rows, name, path.name) if rows.width else empty(name)
    return empty(name)


def write_table(folder: Path, name: str, table: pl.DataFrame) -> Path:
    """Write the table as Parquet, after checking it; rows sorted so that equal content gives equal
    bytes."""
    checked = conform(table, name, f"{name}.parquet")
    keys: list[str] = [c for c in ("time", "start", "caller", "since") if c in checked.columns]
    keys += [c for c in checked.columns if c not in keys]
    path = folder / f"{name}.parquet"
    checked.sort(keys, nulls_last=True, maintain_order=True).write_parquet(path, compression="zstd")
    return path


def conform(table: pl.DataFrame, name: str, file: str) -> pl.DataFrame:
    """Cast to the schema of table `name`, add absent optional columns as nulls, drop unknown ones.

    Raises EvidenceError with the column, or the first row (1-based) whose value cannot be read.
    """
    schema = SCHEMAS[name]
    missing = [c for c in schema.required if c not in table.columns]
    if missing:
        raise EvidenceError(
            file, f"column {missing[0]!r} is missing; needed: {', '.join(schema.required)}"
        )
    out = []
    for column, dtype in schema.columns.items():
        if column not in table.columns:
            out.append(pl.Series(column, [None], dtype=dtype).new_from_index(0, table.height))
            continue
        cast = _cast(table[column], dtype)
        _refuse_bad_rows(
            table[column], cast, column, dtype, file, required=column in schema.required
        )
        out.append(cast.alias(column))
    return pl.DataFrame(out) if table.height else empty(name)


def _cast(values: pl.Series, dtype: pl.DataType) -> pl.Series:
    if dtype == TIME:
        if values.dtype == pl.String:
            return _parse_times(values)
        if isinstance(values.dtype, pl.Datetime) and values.dtype.time_zone is None:
            return values.dt.cast_time_unit("ns").dt.replace_time_zone("UTC")
        if values.dtype.is_integer():
            return values.cast(pl.Int64).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
        if isinstance(values.dtype, pl.Datetime):
            return values.dt.cast_time_unit("ns").dt.convert_time_zone("UTC")
    if dtype == pl.String and isinstance(values.dtype, (pl.Struct, pl.List, pl.Object)):
        return pl.Series(
            values.name, [None if v is None else str(v) for v in values.to_list()], dtype=pl.String
        )
    return values.cast(dtype, strict=False)


def _parse_times(values: pl.Series) -> pl.Series:
    text = values.str.replace(r"[Zz]$", "+00:00").str.replace(r"^(\d{4}-\d\d-\d\d) ", "${1}T")
    with_zone = text.str.to_datetime(
        "%Y-%m-%dT%H:%M:%S%.f%:z", time_unit="ns", time_zone="UTC", strict=False
    )
    naive = text.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="ns", strict=False)
    return with_zone.fill_null(naive.dt.replace_time_zone("UTC"))


def _refuse_bad_rows(
    raw: pl.Series, cast: pl.Series, column: str, dtype: pl.DataType, file: str, *, required: bool
) -> None:
    if cast.null_count() > raw.null_count():
        row = int((cast.is_null() & raw.is_not_null()).arg_true()[0])
        raise EvidenceError(
            file, f"{column} {str(raw[row])[:80]!r} is not a {_word(dtype)}", f"row {row + 1}"
        )
    if required and column not in NULLABLE and raw.null_count():
        raise EvidenceError(
            file, f"{column} is empty", f"row {int(raw.is_null().arg_true()[0]) + 1}"
        )


def _word(dtype: pl.DataType) -> str:
    return "time" if dtype == TIME else "number" if dtype == pl.Float64 else "text"


def _read_parquet(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise EvidenceError(
            path.name, f"is not a readable Parquet file ({_first_line(error)})"
        ) from error


def _read_csv(path: Path) -> pl.DataFrame:
    try:
        return pl.read_csv(path, infer_schema=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise EvidenceError(
            path.name, f"is not a readable CSV file ({_first_line(error)})"
        ) from error


def _read_json_lines(path: Path) -> pl.DataFrame:
    import msgspec

    decoder = msgspec.json.Decoder(dict[str, object])
    rows = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            rows.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise EvidenceError(
                path.name, f"is not a JSON object ({error})", f"row {number}"
            ) from error
    keys = list(dict.fromkeys(k for row in rows for k in row))
    return pl.DataFrame({k: _column([row.get(k) for row in rows]) for k in keys})


def _column(values: list[object]) -> pl.Series:
    import json

    if all(v is None or (isinstance(v, (int, float)) and not isinstance(v, bool)) for v in values):
        return pl.Series(values, strict=False)
    texts = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
    return pl.Series(texts, dtype=pl.String)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:160] if str(error) else type(error).__name__
