"""Columns of texts with the secrets in them masked."""

from __future__ import annotations

import polars as pl

from analysis.secrets.patterns import SUSPICIOUS
from analysis.secrets.redaction import has_rules, masked


def mask_column(column: pl.Series) -> pl.Series:
    """A column of texts with the secrets in it masked; texts that look harmless are left alone in
    one pass."""
    if has_rules():
        found = column.drop_nulls().unique()
    else:
        suspicious = column.str.contains(SUSPICIOUS).fill_null(False)
        if not suspicious.any():
            return column
        found = column.filter(suspicious).unique()
    clean = pl.Series([masked(text) for text in found.to_list()], dtype=pl.String)
    changed = found != clean
    if not changed.any():
        return column
    return column.replace(found.filter(changed), clean.filter(changed))
