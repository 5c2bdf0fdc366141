"""Secrets in whole columns of text."""

from __future__ import annotations

import polars as pl

from faultline.analysis.secrets.columns import mask_column
from faultline.analysis.secrets.redaction import masked
from tests.bot.answer.writer.test_redaction import SECRETS


def test_a_column_is_masked_as_its_texts_are() -> None:
    texts = [text for text, _ in SECRETS.values()] + [
        "GET /health 200",
        "",
        "monkey business",
        None,
    ]
    column = pl.Series("message", texts * 3)
    assert mask_column(column).to_list() == [None if t is None else masked(t) for t in texts] * 3


def test_harmless_columns_are_left_as_they_are() -> None:
    column = pl.Series("message", ["GET /health 200", None, "took 3 ms"])
    assert mask_column(column) is column
    assert mask_column(pl.Series("message", [], dtype=pl.String)).is_empty()
