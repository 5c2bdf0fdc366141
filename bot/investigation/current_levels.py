"""Where the series of a case stand now: nearer to what they were before the incident, or to what
they were in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import metric_windows
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.amounts import amount
from faultline.bot.investigation.model.tools.metric_rows import (
    SeriesSummary,
    metric_rows,
    summaries,
)

if TYPE_CHECKING:
    pass


LATEST = timedelta(minutes=5)
"""Of the last minutes, those whose median is the level now: an incident that ended before that is
over, and one point of a burst decides nothing."""


@dataclass(frozen=True)
class CurrentLevel:
    """The level of a series now, beside that of the baseline and of the incident."""

    summary: SeriesSummary
    now: float

    @property
    def goes_on(self) -> bool:
        """Whether it is nearer to the incident's level than to the baseline's. Levels above zero
        are compared by their ratios, because a latency that fell from 100 times to twice is
        nearly back."""
        before, incident = self.summary.before, self.summary.now
        if before is None or incident is None:
            return False
        levels = (before, incident, self.now)
        if min(levels) > 0:
            before, incident, now = map(math.log, levels)
        else:
            now = self.now
        return abs(now - incident) < abs(now - before)

    @property
    def text(self) -> str:
        """In words."""
        unit, summary = self.summary.shown_unit, self.summary
        minutes = f"{LATEST.total_seconds() / 60:g}"
        phrase = f"{amount(self.now, unit)} in the last {minutes} minutes"
        if summary.before is not None and summary.now is not None:
            phrase += (
                f"; {amount(summary.before, unit)} before, {amount(summary.now, unit)} in "
                "the incident"
            )
        return phrase


def current_levels(case: Case, lately: Case) -> Callable[[Finding], CurrentLevel | None]:
    """The level of a finding's series; None where it has no points now. `lately` is the case with
    the last minutes in the place of the incident. Reads tables, so it blocks."""
    then: dict[tuple[str, str, str], SeriesSummary] = {}
    for summary in summaries(case, case.metrics):
        then.setdefault((summary.service, summary.signal, summary.labels), summary)
        # Without labels the one that departed most, which comes first.
        then.setdefault((summary.service, summary.signal, ""), summary)
    windows = metric_windows(lately)
    rows = metric_rows(lately.metrics, windows)
    recent = rows.filter("is_search", pl.col("time") > windows.search.end - LATEST)

    def level_of(finding: Finding) -> CurrentLevel | None:
        where = finding.series
        key = (where.get("service", ""), where.get("signal", ""), where.get("labels", ""))
        series_summary = then.get(key)
        if series_summary is None:
            return None
        series_rows = recent.filter(
            pl.col("service") == series_summary.service,
            pl.col("signal") == series_summary.signal,
            pl.col("labels") == series_summary.labels,
        )
        median = series_rows["value"].median()
        return CurrentLevel(series_summary, median) if isinstance(median, float) else None

    return level_of
