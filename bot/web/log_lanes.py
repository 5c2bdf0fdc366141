"""How many log lines each service wrote over the timeline, and how many of them were errors by
their level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.logs.lines import ERROR_LEVELS

BUCKETS = 80
MAX_LANES = 4
LogCounts = pl.DataFrame
"""Columns time, service, error: one row per log line."""


@dataclass(frozen=True)
class Bar:
    """One bucket: its place on the axis in percent; all lines and error lines as shares of the
    fullest bucket."""

    x: float
    width: float
    lines: int
    errors: int
    all_high: float
    errors_high: float


@dataclass(frozen=True)
class Lane:
    """One service."""

    service: str
    lines: int
    errors: int
    bars: tuple[Bar, ...]

    @property
    def all_path(self) -> str:
        """Bars of all lines as one SVG path, in a box of 100 by 100."""
        return "".join(_bar(bar, bar.all_high) for bar in self.bars)

    @property
    def error_path(self) -> str:
        """Bars of the error lines."""
        return "".join(_bar(bar, bar.errors_high) for bar in self.bars if bar.errors)


def _bar(bar: Bar, high: float) -> str:
    return f"M{bar.x:g} 100v-{100 * high:.4g}h{bar.width:g}v{100 * high:.4g}z"


def read_log_counts(case: Case) -> LogCounts:
    """The columns that are needed; of a Parquet file nothing else is read. Raises EvidenceError."""
    file = case.path / "logs.parquet"
    if file.exists():
        try:
            return _counts(pl.read_parquet(file, columns=["time", "service", "level"]))
        except (pl.exceptions.PolarsError, OSError):
            # The file lacks a level or has other types, so read it like every other table.
            pass
    return _counts(case.logs)


def _counts(rows: pl.DataFrame) -> LogCounts:
    error = (
        pl.col("level")
        .cast(pl.String)
        .str.to_uppercase()
        .is_in(ERROR_LEVELS)
        .fill_null(value=False)
    )
    return rows.select(
        pl.col("time").dt.replace_time_zone(None).dt.cast_time_unit("us"),
        pl.col("service").cast(pl.String).fill_null(""),
        error.alias("error"),
    )


def lanes_of(
    logs: LogCounts, start: datetime, end: datetime, about: Sequence[str]
) -> tuple[Lane, ...]:
    """A lane for the services with most error lines; those that findings are `about` first."""
    first, last = start.replace(tzinfo=None), end.replace(tzinfo=None)
    rows = logs.filter((pl.col("time") >= first) & (pl.col("time") < last))
    if not rows.height:
        return ()
    # A bucket without width would divide by zero.
    width = max((last - first) / BUCKETS, timedelta(microseconds=1))
    bucket = (
        (pl.col("time") - first).dt.total_microseconds() // (width // timedelta(microseconds=1))
    ).alias("bucket")
    counts = rows.group_by("service", bucket).agg(
        pl.len().alias("lines"), pl.col("error").sum().alias("errors")
    )
    is_about = pl.col("service").is_in(list(dict.fromkeys(about)))
    totals = (
        counts.group_by("service")
        .agg(pl.col("lines").sum(), pl.col("errors").sum())
        .sort(is_about, "errors", "lines", "service", descending=[True, True, True, False])
    )
    return tuple(
        _lane(service, lines, errors, counts.filter(pl.col("service") == service).sort("bucket"))
        for service, lines, errors in totals.head(MAX_LANES).iter_rows()
    )


def _lane(service: str, lines: int, errors: int, counts: pl.DataFrame) -> Lane:
    most = max(counts["lines"].to_list())
    share = 100 / BUCKETS
    bars = tuple(
        Bar(
            round(share * b, 3),
            # Leave a gap between two bars.
            round(share * 0.85, 3),
            n,
            e,
            round(n / most, 3),
            round(e / most, 3),
        )
        for b, n, e in counts.select("bucket", "lines", "errors").iter_rows()
    )
    return Lane(service, lines, errors, bars)
