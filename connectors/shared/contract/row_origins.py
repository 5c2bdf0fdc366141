"""Says of each log line and span which item it came with, so that a finding cites the query of its
own rows.

Connectors put together what many queries brought, each row once. Rather than have each of them
number its rows, an item remembers them (`Item.holding`), and they are found again here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from faultline.analysis.case.tables import ORIGIN, SCHEMAS

Rows = pl.DataFrame | Sequence[Sequence[Any]]
KEYS: Mapping[str, tuple[str, ...]] = {
    "logs": ("time", "service", "message"),
    "spans": ("trace_id", "span_id"),
}
"""What tells the rows of a table apart."""


def with_origins(
    table: pl.DataFrame, name: str, item_rows: Sequence[tuple[int, Rows]]
) -> pl.DataFrame:
    """The table of that name with the column `evidence`: the place of the first item that a row
    came with, as text; null where no item holds it. `item_rows` are the items' places and rows."""
    table = table.drop(ORIGIN, strict=False)
    if not item_rows or not set(KEYS[name]) <= set(table.columns):
        return table
    try:
        key = KEYS[name]
        key_frames = []
        for place, rows in item_rows:
            key_frames.append(_keys_of(rows, name).with_columns(pl.lit(str(place)).alias(ORIGIN)))
        # A row that two queries brought cites the first; a second match would duplicate it.
        first = pl.concat(key_frames).unique(key, keep="first", maintain_order=True)
        # Nulls are equal here: a log line without a service must find its item, too.
        origins = _keys_of(table, name).join(
            first, on=key, how="left", nulls_equal=True, maintain_order="left"
        )
        return table.with_columns(origins[ORIGIN])
    except (pl.exceptions.PolarsError, ValueError, TypeError, IndexError, OverflowError):
        # A connector of another package may hold what is no row: that costs the citations alone.
        return table


def _keys_of(rows: Rows, name: str) -> pl.DataFrame:
    columns = SCHEMAS[name].columns
    key_columns = []
    for column in KEYS[name]:
        if isinstance(rows, pl.DataFrame):
            values = rows[column]
        else:
            place = list(columns).index(column)
            # Foreign rows may mix types in a column, which a strict series refuses.
            values = pl.Series(column, [row[place] for row in rows], strict=False)
        key_columns.append(values.cast(columns[column], strict=False))
    return pl.DataFrame(key_columns)
