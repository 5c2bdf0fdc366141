"""Says of each row from one of several servers where it belongs, where the row does not say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import polars as pl

from faultline.analysis.kinds.place_names import same_place_labels
from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.shared.settings.instances import Covers

LABEL_COLUMNS: Mapping[str, str] = {
    "metrics": "labels",
    "logs": "attributes",
    "spans": "attributes",
}
"""Columns that hold a row's labels as a JSON object, by table."""
SOURCE_LABEL = "source"
"""Tells equal series of two servers apart where neither they nor `covers` name a place."""


def placed(collected: Collected, covers: Covers, source: str) -> Collected:
    """What a server brought, each row with the places that it does not name itself."""
    places = covers.single_places()
    tables = dict(collected.tables)
    for name, column in LABEL_COLUMNS.items():
        table = tables.get(name)
        if table is None:
            continue
        # A column without any label has no type, or is not there.
        kind = table.schema.get(column, pl.Null())
        if kind == pl.Null():
            table = table.with_columns(pl.lit(None, dtype=pl.String()).alias(column))
        elif kind != pl.String():
            continue
        for label, value in places.items():
            table = table.with_columns(_with_label(column, label, value))
        # Else the series of two servers would be read as one that jumps between them.
        if name == "metrics" and not places:
            table = table.with_columns(_with_label(column, SOURCE_LABEL, source))
        tables[name] = table
    return replace(collected, tables=tables)


def _with_label(column: str, label: str, value: str) -> pl.Expr:
    """A column of JSON objects with one more label, where an object has none of that meaning.

    Objects are extended as text: to parse those of all log lines would take seconds.
    """
    label_json = msgspec.json.encode({label: value}).decode()
    text = pl.col(column)
    carries = pl.lit(False)
    for name in same_place_labels(label):
        key = msgspec.json.encode(name).decode()
        carries |= text.str.contains(f"{key}:", literal=True)
    # Only an object that ends in a text can be extended as text without a doubt.
    is_object = text.str.starts_with("{") & text.str.ends_with('"}')
    extended = text.str.strip_suffix("}") + pl.lit("," + label_json[1:])
    without = text.is_null() | text.is_in(["", "{}"])
    return (
        pl.when(without)
        .then(pl.lit(label_json))
        .when(is_object & ~carries)
        .then(extended)
        .otherwise(text)
        .alias(column)
    )
