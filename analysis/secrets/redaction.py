"""Well-known secrets in a text, replaced by their kind. What they look like stands in
`secret_patterns`."""

from __future__ import annotations

import re
from collections.abc import Callable

import polars as pl

from analysis.secrets.patterns import SECRETS, SUSPICIOUS

_MASKED = re.compile(r"\[[A-Z][A-Z_]{1,30}(?:_\d{1,6})?\]")


def masked(text: str) -> str:
    """The text with each secret replaced by its kind, `[AWS_KEY]`. Not reversible; personal data
    stays."""
    for kind, pattern in SECRETS:
        text = pattern.sub(replacing(lambda _secret, kind=kind: f"[{kind}]"), text)  # type: ignore[misc]
    return text


def mask_column(column: pl.Series) -> pl.Series:
    """A column of texts with the secrets in it masked; texts that look harmless are left alone in
    one pass."""
    suspicious = column.str.contains(SUSPICIOUS).fill_null(False)
    if not suspicious.any():
        return column
    found = column.filter(suspicious).unique()
    clean = pl.Series([masked(text) for text in found.to_list()], dtype=pl.String)
    changed = found != clean
    if not changed.any():
        return column
    return column.replace(found.filter(changed), clean.filter(changed))


def replacing(
    replacement: Callable[[str], str], holds: Callable[[str], bool] = lambda value: True
) -> Callable[[re.Match[str]], str]:
    """For `re.sub`: replaces what the pattern is about within the match, where `holds` says that it
    is such a value."""

    def replace(match: re.Match[str]) -> str:
        group = match.lastindex or 0
        value = match.group(group)
        if _MASKED.match(match.string, match.start(group)) or not holds(value):
            return match.group()
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        return match.group()[:start] + replacement(value) + match.group()[end:]

    return replace
