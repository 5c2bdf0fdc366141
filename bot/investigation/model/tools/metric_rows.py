"""The rows of the metrics table as the tools read them: rising counters as rates, and one summary
for each series."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import Windows, metric_windows
from faultline.analysis.metrics.baseline_comparison import compare
from faultline.analysis.metrics.series import LARGEST, as_rates, metric_blocks
from faultline.analysis.wording.amounts import Unit, amount, levels, times, unit_of
from faultline.analysis.wording.phrases import plain

KEYS = ("service", "signal", "unit", "labels")
DAY, WEEK = timedelta(days=1), timedelta(days=7)
LOW, HIGH = 0.05, 0.95
"""Quantiles of the baseline that bound its usual variation."""
WORTH_A_MULTIPLE = 1.1
"""A smaller move is described by its two levels alone: "1x" says nothing."""
SLIGHT = 0.1
"""A median within this share of the baseline's is called unaffected. A larger move inside the usual
variation is described as a move inside its usual variation."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Departure:
    """What the analysis says of a series that it could compare. Levels are in the signal's
    sense."""

    departed: bool
    before: float
    level: float
    scale: float
    sigmas: float
    onset: datetime | None


@dataclass(frozen=True)
class SeriesSummary:
    """One series in baseline and incident; None where there are no points."""

    service: str
    signal: str
    unit: str | None
    labels: str
    """As the table has them: JSON, or empty."""
    points: int
    before: float | None
    now: float | None
    usual_low: float | None
    usual_high: float | None
    lowest: float | None
    highest: float | None
    yesterday: float | None
    last_week: float | None
    departure: Departure | None
    first: datetime
    last: datetime
    interval_s: float | None

    @property
    def departed(self) -> bool:
        """Whether it left the variation of its baseline."""
        return self.departure is not None and self.departure.departed

    @property
    def direction(self) -> str | None:
        """ "rose", "fell" or "unaffected"; None where there is nothing to compare."""
        if self.before is None or self.now is None:
            return None
        moved = "rose" if self.now > self.before else "fell"
        if self.departed:
            return moved
        slight = SLIGHT * abs(self.before)
        if self.before == 0 and self.departure is not None:
            # Of nothing there is no share.
            slight = self.departure.scale
        return "unaffected" if abs(self.now - self.before) <= slight else moved

    @property
    def ratio(self) -> float | None:
        """Incident to baseline; None where a level is zero or below, which no ratio describes."""
        if self.before is None or self.now is None or min(self.before, self.now) <= 0:
            return None
        return self.now / self.before

    @property
    def numbers(self) -> dict[str, float]:
        """By the names of their roles."""
        numbers_by_role = {
            "baseline": self.before,
            "incident": self.now,
            "ratio": self.ratio,
            "usual_low": self.usual_low,
            "usual_high": self.usual_high,
            "lowest": self.lowest,
            "highest": self.highest,
            "yesterday": self.yesterday,
            "last_week": self.last_week,
        }
        return {name: number for name, number in numbers_by_role.items() if number is not None}

    @property
    def shown_unit(self) -> Unit:
        """How its values are said."""
        present_values = [v for v in (self.before, self.now, self.highest) if v is not None]
        return unit_of(self.signal, self.unit, present_values)

    @property
    def place(self) -> dict[str, str]:
        """Where its rows are, for a chart and for `calculate`."""
        where = {"table": "metrics", "service": self.service, "signal": self.signal}
        return where | ({"labels": self.labels} if self.labels else {})

    def moved(self) -> str:
        """What it did, in words that are true of it."""
        unit = self.shown_unit
        if self.now is None:
            if self.before is None:
                return "has no points in the incident or its baseline"
            return f"has no points in the incident; {amount(self.before, unit)} before"
        if self.before is None:
            return f"was {amount(self.now, unit)} in the incident; no baseline"
        before, now = levels(self.before, self.now, unit)
        if self.direction == "unaffected":
            return f"was steady: {before} before, {now} in the incident"
        by = ""
        if self.ratio and max(self.ratio, 1 / self.ratio) >= WORTH_A_MULTIPLE:
            by = f" {times(max(self.ratio, 1 / self.ratio))}"
        phrase = f"{self.direction}{by}, from {before} to {now}"
        departure = self.departure
        if departure is not None and departure.departed and departure.onset is not None:
            return f"{phrase}, at {departure.onset:%H:%M:%S}"
        return f"{phrase}, {self._variation()}"

    def _variation(self) -> str:
        if self.departure is None:
            return "with too few points to tell whether that is usual"
        low, high = self.usual_low, self.usual_high
        if low is not None and high is not None and self.now is not None:
            if low <= self.now <= high:
                return "inside its usual variation"
            return "outside its usual range, but not established as a departure"
        return "inside its usual variation"

    def beside(self) -> str:
        """Its usual range, its extremes, yesterday and last week, where they are known."""
        unit, parts = self.shown_unit, []
        if self.usual_low is not None and self.usual_high is not None:
            low, high = levels(self.usual_low, self.usual_high, unit)
            parts.append(f"usually {low} to {high}" if low != high else f"usually {low}")
        if self.lowest is not None and self.highest is not None and self.lowest != self.highest:
            low, high = levels(self.lowest, self.highest, unit)
            parts.append(f"incident {low} to {high}")
        if self.yesterday is not None:
            parts.append(f"yesterday {amount(self.yesterday, unit)}")
        if self.last_week is not None:
            parts.append(f"last week {amount(self.last_week, unit)}")
        return ", ".join(parts)


def labels_in(text: str) -> dict[str, str]:
    """The labels of a series; those that are no JSON object under the name "labels"."""
    if not text:
        return {}
    try:
        labels = json.loads(text)
    except (ValueError, RecursionError):
        labels = None
    if not isinstance(labels, dict):
        return {"labels": plain(text, 200)}
    return {plain(str(k), 60): plain(str(v), 100) for k, v in labels.items()}


def shown_labels(text: str) -> str:
    """Labels as they are written beside a signal: ` {pod=a-1}`."""
    labels = labels_in(text)
    return " {" + ", ".join(f"{k}={v}" for k, v in labels.items()) + "}" if labels else ""


def metric_rows(metrics: pl.DataFrame, windows: Windows) -> pl.DataFrame:
    """time, value and KEYS of every point that is a number, counters as rates; `is_baseline`,
    `is_search`."""
    keys = list(KEYS)
    rows = (
        metrics.filter(pl.col("value").abs() <= LARGEST, pl.col("service").is_not_null())
        .with_columns(
            pl.col("unit", "labels").fill_null(""),
            windows.in_baseline("time").alias("is_baseline"),
            windows.in_search("time").alias("is_search"),
        )
        # What lies in both windows belongs to the incident.
        .with_columns(pl.col("is_baseline") & ~pl.col("is_search"))
        .group_by([*keys, "time"])
        .agg(pl.col("value").mean(), pl.col("is_baseline").first(), pl.col("is_search").first())
    )
    return as_rates(rows, keys).sort([*keys, "time"])


def summaries(case: Case, metrics: pl.DataFrame) -> list[SeriesSummary]:
    """One for each series of these rows of the case, those that departed most first."""
    windows = metric_windows(case)
    rows = metric_rows(metrics, windows)
    if not rows.height:
        return []
    departures = _departures(metrics, windows)
    value, search = pl.col("value"), windows.search
    before, now = value.filter("is_baseline"), value.filter("is_search")
    time = pl.col("time")
    table = rows.group_by(list(KEYS), maintain_order=True).agg(
        pl.len().alias("points"),
        before.median().alias("before"),
        now.median().alias("now"),
        before.quantile(LOW).alias("usual_low"),
        before.quantile(HIGH).alias("usual_high"),
        now.min().alias("lowest"),
        now.max().alias("highest"),
        value.filter(time.is_between(search.start - DAY, search.end - DAY))
        .median()
        .alias("yesterday"),
        value.filter(time.is_between(search.start - WEEK, search.end - WEEK))
        .median()
        .alias("last_week"),
        time.min().alias("first"),
        time.max().alias("last"),
        (time.diff().median().dt.total_milliseconds() / 1000).alias("interval_s"),
    )
    series_summaries = [_summary(row, departures) for row in table.iter_rows(named=True)]
    return sorted(series_summaries, key=_most_telling)


def _summary(
    row: Mapping[str, Any], departures: Mapping[tuple[str, str, str], Departure]
) -> SeriesSummary:
    departure = departures.get((row["service"], row["signal"], row["labels"]))
    fields = {**row, "unit": row["unit"] or None, "departure": departure}
    if departure is not None and departure.departed:
        # The level of the departure, not of the whole incident, whose first part may be calm.
        fields |= {"before": departure.before, "now": departure.level}
    return SeriesSummary(**fields)


def _most_telling(summary: SeriesSummary) -> tuple[float, float, str, str]:
    departure = summary.departure
    sigmas = departure.sigmas if departure is not None and departure.departed else 0.0
    by = abs(np.log(summary.ratio)) if summary.ratio and summary.direction != "unaffected" else 0.0
    # Names decide last, so that the order is the same in every run.
    return -sigmas, -float(by), summary.signal, summary.labels


def _departures(metrics: pl.DataFrame, windows: Windows) -> dict[tuple[str, str, str], Departure]:
    departures = {}
    for block in metric_blocks(metrics, windows):
        compared = compare(block)
        for n, (service, signal, _, labels) in enumerate(compared.keys.iter_rows()):
            departed = bool(compared.departed[n])
            before, level = float(compared.centre[n]), float(compared.level[n])
            ceiling = float(compared.ceiling[n])
            # The comparison measures the distance from the ceiling: turn it back into levels.
            if np.isfinite(ceiling):
                before, level = ceiling - before, ceiling - level
            onset = None
            if departed:
                onset = _EPOCH + timedelta(microseconds=int(compared.onset_ns[n]) // 1000)
            scale, sigmas = float(compared.scale[n]), min(float(compared.sigmas[n]), 1e6)
            departures[service, signal, labels] = Departure(
                departed, before, level, scale, sigmas, onset
            )
    return departures
