"""The recorded lines behind a finding about logs: the first, the last and some between, as they
were written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import LineDetails
from faultline.analysis.logs.lines import log_texts
from faultline.analysis.logs.masks import VALUE, template_pattern
from faultline.analysis.vocabulary import Finding

SHOWN = 12
UNWRAPPED = 20_000
"""Lines whose JSON is read when the template is in none of the lines as they stand."""
MAX_LINE = 4_000
MAX_TEMPLATE, MAX_VALUES = 2_000, 100
"""Templates of ours are cut at 400 characters; a pattern of very many values takes minutes to
prepare."""


@dataclass(frozen=True)
class LogLine:
    """One line."""

    time: datetime
    service: str
    level: str
    text: str


@dataclass(frozen=True)
class LogLinesView:
    """Lines of one template, or of one service. `count` of them are in the case."""

    template: str
    lines: tuple[LogLine, ...]
    count: int
    first: datetime
    last: datetime


def log_lines(case: Case, finding: Finding) -> LogLinesView | None:
    """The lines that the finding is about; None when it is about none."""
    if finding.series.get("table") != "logs":
        return None
    details = LineDetails.of(finding)
    template = details.template if details else ""
    rows = _of_template(_of_series(case.logs, finding.series), template).sort("time")
    if not rows.height:
        return None
    lines = [_line(row) for row in _some(rows).iter_rows(named=True)]
    return LogLinesView(template, tuple(lines), rows.height, rows["time"][0], rows["time"][-1])


def _of_series(logs: pl.DataFrame, series: Mapping[str, str]) -> pl.DataFrame:
    rows = logs.drop_nulls("message")
    for column in ("service", "level"):
        if series.get(column):
            rows = rows.filter(pl.col(column) == series[column])
    return rows


def _some(rows: pl.DataFrame) -> pl.DataFrame:
    """The first line, the last one, and some evenly between."""
    step = max(1, math.ceil(rows.height / (SHOWN - 1)))
    spread = rows.gather_every(step).head(SHOWN - 1)
    # The last line may be among them already.
    return pl.concat([spread, rows.tail(1)]).unique(maintain_order=True)


def _line(row: Mapping[str, Any]) -> LogLine:
    text = row["message"][:MAX_LINE]
    return LogLine(row["time"], row["service"] or "", row["level"] or "", text)


def _of_template(rows: pl.DataFrame, template: str) -> pl.DataFrame:
    if not template:
        return rows
    if len(template) > MAX_TEMPLATE or template.count(VALUE) > MAX_VALUES:
        return rows.clear()
    pattern = template_pattern(template)
    try:
        texts = rows.filter(pl.col("message").str.contains(pattern))
        if not texts.height:
            texts = log_texts(rows.head(UNWRAPPED)).filter(pl.col("text").str.contains(pattern))
    # The regex engine refuses a pattern that compiles to more than its limit.
    except pl.exceptions.PolarsError:
        return rows.clear()
    return texts
