"""Columns of texts with the secrets in them masked."""

from __future__ import annotations

import polars as pl

from faultline.analysis.secrets.patterns import PACKED, SUSPICIOUS, WRAPPED
from faultline.analysis.secrets.redaction import has_rules, masked, masked_words


def mask_column(column: pl.Series) -> pl.Series:
    """A column of texts with the secrets in it masked; texts that look harmless are left alone in
    one pass."""
    texts = column.drop_nulls().unique()
    if has_rules():
        suspects, packed = texts, texts.clear()
    else:
        suspicious = texts.str.contains(SUSPICIOUS) | texts.str.contains(WRAPPED)
        suspects, rest = texts.filter(suspicious), texts.filter(~suspicious)
        packed = rest.filter(rest.str.contains(PACKED))
    frame = pl.concat([suspects, packed])
    clean_texts = [masked(text) for text in suspects.to_list()]
    clean_texts += [masked_words(text) for text in packed.to_list()]
    clean = pl.Series(clean_texts, dtype=pl.String)
    changed = frame != clean
    if not changed.any():
        return column
    return column.replace(frame.filter(changed), clean.filter(changed))
