"""Rows of an analysis as a Polars frame, whose columns are the same whether there are rows or
not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from faultline.analysis.traces.columns.row_table import FLOAT, INTS, TEXT, RowTable
from faultline.analysis.traces.comparison.trace_diff import DIFFERENCES
from faultline.trace_report.job_analyses import TABLES
from faultline.trace_report.registry import ANALYSES, BESIDE, table_of

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
