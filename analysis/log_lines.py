"""The text of a log line: what a container runtime or a JSON logger wrapped around it is taken off, variables masked.

`log_texts` gives per distinct line: its text, whether it is an error, and the text with its variable parts as `<*>`.
"""

from __future__ import annotations

import msgspec
import polars as pl

TEXT_LIMIT = 400
"""A template is told apart by its beginning; the rest of a long line is payload."""
ERROR_LEVELS = ("ERROR", "FATAL", "CRITICAL", "SEVERE", "EMERG", "EMERGENCY", "ALERT", "PANIC", "ERR")
_ERROR_LEVEL = r"(?i)^(" + "|".join(ERROR_LEVELS) + r")$"
_ERROR_TEXT = (
    r"\b(ERROR|FATAL|CRITICAL|SEVERE|PANIC)\b|(?i)\b(panic|traceback|oomkilled|segfault)\b"
    r"|[a-z]Exception\b|(?i)\b(failed|failure|refused|unavailable|no space left|timed out|deadline exceeded)\b"
)
_MASKS = (
    (r"\x1b\[[0-9;]*m", ""),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([.,]\d+)?(Z|[+-]\d\d:?\d\d)?", "<*>"),
    (r"\b[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "<*>"),
    (r"\b(0x[0-9a-fA-F]+|[0-9a-fA-F]{16,})\b", "<*>"),
    # a number behind a letter, "_" or "#" is part of a name (D1345, Impl#451), not a value
    (r"(^|[^A-Za-z0-9_#.])[-+]?\d[\d.,:]*", "${1}<*>"),
)


class _Wrapped(msgspec.Struct):
    """The keys under which loggers and container runtimes keep the text and the level."""

    log: str | None = None
    message: str | None = None
    msg: str | None = None
    body: str | None = None
    severity: str | None = None
    level: str | None = None


_decoder = msgspec.json.Decoder(_Wrapped)


def log_texts(logs: pl.DataFrame) -> pl.DataFrame:
    """The rows with `text` (unwrapped, at most 400 characters), `is_error` and `masked` added."""
    texts, levels = unwrap(logs["message"].fill_null("").to_list())
    rows = logs.with_columns(
        pl.Series("text", texts, dtype=pl.String).str.slice(0, TEXT_LIMIT),
        pl.Series("wrapped_level", levels, dtype=pl.String),
    )
    level = pl.coalesce("level", "wrapped_level")
    masked = pl.col("text")
    for pattern, replacement in _MASKS:
        masked = masked.str.replace_all(pattern, replacement)
    return rows.with_columns(
        pl.when(level.is_not_null() & (level != ""))
        .then(level.str.contains(_ERROR_LEVEL))
        .otherwise(pl.col("text").str.contains(_ERROR_TEXT))
        .alias("is_error"),
        masked.alias("masked"),
    ).drop("wrapped_level")


def unwrap(lines: list[str]) -> tuple[list[str], list[str | None]]:
    """Text and level of each line; a line that is not JSON with a known key stays as it is."""
    texts, levels = [], []
    for line in lines:
        text, level = _unwrap_one(line) if line.startswith("{") else (line, None)
        texts.append(text.strip())
        levels.append(level)
    return texts, levels


def _unwrap_one(line: str, depth: int = 2) -> tuple[str, str | None]:
    try:
        found = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return line, None
    text = found.log or found.message or found.msg or found.body
    level = found.severity or found.level
    if text is None:
        return line, level
    if depth > 1 and text.startswith("{"):
        inner, inner_level = _unwrap_one(text, depth - 1)
        return inner, inner_level or level
    return text, level
