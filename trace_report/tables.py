"""`--tables DIR`: every analysis as a Parquet file, with all of its rows.

The rows of a rank are written by the process that analysed it and not kept: a file for each
analysis in a folder of the rank's. Once all ranks are known, the files of an analysis become one,
piece by piece.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import polars as pl
from polars.exceptions import PolarsError

from faultline.analysis.errors import SettingsError
from faultline.analysis.traces.columns.row_table import FLOAT, INTS, TEXT, Rows, RowTable
from faultline.analysis.traces.comparison.trace_diff import DIFFERENCES
from faultline.trace_report.registry import ANALYSES, BESIDE, TABLES, table_of

# Rows of an analysis as a Polars frame, whose columns are the same whether there are rows or not.

TYPES: Mapping[str, pl.DataType] = {
    "text": pl.String(),
    "int": pl.Int64(),
    "float": pl.Float64(),
    "bool": pl.Boolean(),
    "texts": pl.List(pl.String()),
    "ints": pl.List(pl.Int64()),
}
RANK = {"rank": TYPES["int"]}

DIAGNOSES = RowTable(
    TEXT("severity", "rule", "subject", "statement", "fix"),
    INTS("ranks", "steps"),
    FLOAT("cost_ns"),
    TEXT("source"),
)


def schema_of(name: str) -> dict[str, pl.DataType]:
    """The columns of an analysis, without the rank; analyses of single ranks have `rank` before
    them."""
    tables = {"diagnoses": DIAGNOSES, "differences": DIFFERENCES} | TABLES
    if name in ANALYSES or name in BESIDE:
        tables[name] = table_of(name)
    types = tables[name].types if name in tables else {}
    return {column: TYPES[kind] for column, kind in types.items()}


def frame_of(
    name: str, rows: Sequence[Mapping[str, Any]], *, by_rank: bool = False
) -> pl.DataFrame:
    """The rows of an analysis; `by_rank` where each comes with its `rank`.

    Columns that only some traces have, such as hardware counters, stand after the others.
    """
    schema = schema_of(name)
    if by_rank:
        schema = RANK | schema
    columns = [_column(key, kind, rows) for key, kind in schema.items()]
    for key in sorted({key for row in rows for key in row} - set(schema)):
        columns.append(pl.Series(key, [row.get(key) for row in rows], strict=False))
    return pl.DataFrame(columns)


def _column(key: str, kind: pl.DataType, rows: Sequence[Mapping[str, Any]]) -> pl.Series:
    values = [row.get(key) for row in rows]
    if kind == TYPES["int"]:
        # "all" stands beside the numbers of streams; a hostile count may not fit.
        values = [v if isinstance(v, int) and -(2**63) <= v < 2**63 else None for v in values]
    return pl.Series(key, values, dtype=kind, strict=False)


OF_RANK = "file of the rank"
AS_NAMED: Mapping[str, Any] = {"glob": False, "hive_partitioning": False}
"""Files are as they are called: brackets and "rank=3" in the names of folders mean nothing."""
MEANWHILE: Literal["lz4"] = "lz4"
"""Compression of what is read again soon."""


@contextmanager
def folder_for_ranks(folder: Path) -> Iterator[Path]:
    """Where ranks put their rows meanwhile: within the folder of the tables, on the disk that has
    room for them. Raises SettingsError where it cannot be made."""
    with _refusals(folder):
        folder.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=folder, prefix=".ranks-")
    with scratch as path:
        yield Path(path)


def write_rank(rows: Mapping[str, Rows], folder: Path) -> None:
    """Write the rows of one rank into a new folder, without its number: what follows from the order
    of files is not known before all of them are read. Raises SettingsError where that is
    impossible."""
    with _refusals(folder):
        folder.mkdir()
        for name, row in rows.items():
            frame_of(name, row).write_parquet(folder / f"{name}.parquet", compression=MEANWHILE)


def write_tables(
    folder: Path, ranks: Iterable[tuple[int, Path]], job_rows: Mapping[str, Rows]
) -> None:
    """Write `folder/NAME.parquet` for each analysis: what `write_rank` wrote of each rank, with a
    column `rank`, and the rows of `job_rows`, which are not of single ranks.

    The columns are those of the Python library's frames. Raises SettingsError where that is
    impossible.
    """
    parts: dict[str, list[Path]] = {}
    with _refusals(folder):
        for rank, written in ranks:
            for file in written.rename(written.with_name(f"rank{rank}")).iterdir():
                parts.setdefault(file.stem, []).append(file)
        for name, part in parts.items():
            # Make one file of those of the ranks, which are in folders with their numbers.
            target = folder / f"{name}.parquet"
            columns = _same_columns(name, part)
            # One scan of many files is linear in their number; a concatenation of scans is not.
            whole = pl.scan_parquet(part, include_file_paths=OF_RANK, **AS_NAMED)
            number = pl.col(OF_RANK).str.extract(r"rank(\d+)/[^/]+$").cast(pl.Int64)
            whole.select(number.alias("rank"), *columns).sink_parquet(target)
        for name, rows in job_rows.items():
            frame_of(name, rows).write_parquet(folder / f"{name}.parquet")


def _same_columns(name: str, files: Sequence[Path]) -> list[str]:
    """Give the files the same columns, and name them: some analyses have columns that only some
    traces have."""
    schemas = [pl.scan_parquet(file, **AS_NAMED).collect_schema() for file in files]
    distinct = {tuple(schema.items()): schema for schema in schemas}
    frames = [pl.DataFrame(schema=schema) for schema in distinct.values()]
    expected_columns = schema_of(name)
    empty = pl.concat(frames, how="diagonal_relaxed")
    empty = empty.select(*expected_columns, *sorted(set(empty.columns) - set(expected_columns)))
    for file, schema in zip(files, schemas, strict=True):
        if list(schema.items()) != list(empty.schema.items()):
            whole = pl.concat([empty, pl.read_parquet(file, **AS_NAMED)], how="diagonal_relaxed")
            whole.write_parquet(file, compression=MEANWHILE)
    return empty.columns


@contextmanager
def _refusals(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, PolarsError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise SettingsError(str(folder), f"cannot be written ({why})") from error
