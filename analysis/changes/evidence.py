"""Troubled lines: warnings and errors that the incident has and the baseline has hardly, and
operations that fail.

Distinct lines are kept once with their count, so what is read afterwards does not grow with
repetition.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import Windows, log_windows, span_windows
from faultline.analysis.logs.counts import items_of
from faultline.analysis.logs.lines import ERROR_LEVELS
from faultline.analysis.logs.templates import UNKNOWN_SERVICE

MAX_DISTINCT = 1_500
MAX_TEXT = 600
BASELINE_SHARE = 1 / 3
"""A line is a symptom where the incident has it three times as often as the baseline, as in
`log_templates`."""
TROUBLED_LEVEL = r"(?i)^(warn|warning|" + "|".join(ERROR_LEVELS) + r")$"
TROUBLED_TEXT = (
    r"(?i)\b(warn(ing)?|error|fatal|critical|severe|panic|exception|traceback|fail(ed|ure|ing)?"
    r"|refused|denied|unavailable"
    r"|timed? ?out|deadline|exceeded|rejected|invalid|missing|cannot|could not|unable|no "
    r"space|oomkilled|throttl\w+"
    r"|slow)\b"
)
_LINE_COLUMNS = ("service", "text", "attributes", "n", "first", "items")
FAILED_STATUS = r"(?i)error|fail|^5\d\d$|cancel|deadline"


@dataclass(frozen=True)
class FailingLine:
    """A distinct line of a service, or a failing operation: how often and since when the incident
    has it."""

    service: str
    text: str
    attributes: str
    n: int
    first: datetime
    items: tuple[str, ...] = ()
    """Ids of what brought it, where that is known."""

    @property
    def whole(self) -> str:
        """The text with its attributes."""
        return f"{self.text} {self.attributes}"


def failing_lines(case: Case) -> list[FailingLine]:
    """Distinct warnings and errors, the most frequent first. Levels decide where they are given,
    else words."""
    if not case.logs.height:
        return []
    windows = log_windows(case)
    level, text = (
        pl.col("level").fill_null(""),
        pl.col("message").fill_null("").str.slice(0, MAX_TEXT),
    )
    rows = (
        _windowed(case.logs, windows, "time")
        .filter(
            level.str.contains(TROUBLED_LEVEL)
            | ((level == "") & pl.col("message").str.contains(TROUBLED_TEXT))
        )
        .with_columns(text.alias("text"))
    )
    return _distinct(rows, windows, "time")


def failing_operations(case: Case) -> list[FailingLine]:
    """Operations whose spans fail, as lines, the most frequent first."""
    if not case.spans.height:
        return []
    windows = span_windows(case)
    rows = _windowed(case.spans, windows, "start").filter(
        pl.col("status").fill_null("").str.contains(FAILED_STATUS)
    )
    return _distinct(
        rows.with_columns((pl.col("operation").str.slice(0, MAX_TEXT) + " failed").alias("text")),
        windows,
        "start",
    )


def _windowed(rows: pl.DataFrame, windows: Windows, time: str) -> pl.DataFrame:
    marked = rows.with_columns(
        windows.in_search(time).alias("now"), windows.in_baseline(time).alias("before")
    )
    return marked.filter(pl.col("now") | pl.col("before"))


def _distinct(rows: pl.DataFrame, windows: Windows, time: str) -> list[FailingLine]:
    """By service, text and attributes; lines whose shape (digits and hashes aside) the baseline has
    are left out."""
    # The windows differ in length: scale the baseline's counts to the incident's.
    share = windows.search.seconds / max(1.0, sum(w.seconds for w in windows.baseline))
    distinct_lines = (
        rows.with_columns(
            pl.col("attributes").fill_null("").str.slice(0, MAX_TEXT),
            pl.col("service").fill_null(UNKNOWN_SERVICE),
            # Ids, ports and times would make every repetition a line of another shape.
            pl.col("text").str.replace_all(r"[0-9a-fA-F]{6,}|\d+", "#").alias("shape"),
        )
        .with_columns(
            (pl.col("before") & ~pl.col("now")).sum().over("service", "shape").alias("shape_before")
        )
        .with_columns(pl.col("now").sum().over("service", "shape").alias("shape_now"))
        .filter(
            pl.col("now"), pl.col("shape_before") * share <= pl.col("shape_now") * BASELINE_SHARE
        )
        .group_by("service", "text", "attributes")
        .agg(
            pl.len().alias("n"),
            pl.col("shape_now").first(),
            pl.col(time).min().alias("first"),
            items_of(rows).alias("items"),
        )
        .sort(
            # Names break ties, so that the cut below keeps the same lines in every run.
            ["shape_now", "n", "service", "text", "attributes"],
            descending=[True, True, False, False, False],
        )
        .head(MAX_DISTINCT)
    )
    lines = []
    for service, text, attributes, n, first, items in distinct_lines.select(
        _LINE_COLUMNS
    ).iter_rows():
        lines.append(FailingLine(service, text, attributes, n, first, tuple(items)))
    return lines
