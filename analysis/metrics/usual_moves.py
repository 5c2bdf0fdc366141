"""Moves that a series makes all the time: as far and as long as in the incident, several times in
the baseline.

What happens every half hour is no incident, however far it stands out of the median's noise: the
moves of the baseline are counted, and expected in a window of the incident's length as often as
they came before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import metric_windows
from faultline.analysis.metrics.alert_threshold import stretches
from faultline.analysis.metrics.shift_statistics import Floats
from faultline.analysis.metrics.shifts import COUNTER, LARGEST
from faultline.analysis.metrics.shifts import KIND as METRIC_SHIFT
from faultline.analysis.vocabulary import Finding

HALF_WAY = 0.5
"""A move reaches as far when it passes half the way from the baseline's level to the incident's,
and lasts as long from half of the incident's time on."""
LEAST_TIMES = 2
PER_WINDOW = 0.5
"""Moves expected in a window of the incident's length: one in every other window."""
CLEAR = 0.3
"""Strength from which a symptom is clear: below it, noise that stands out by chance is as
likely."""
MOST = 100
"""Findings that are compared, the strongest first."""


@dataclass(frozen=True)
class UsualMove:
    """How often the baseline made the move, and for how long at most (s)."""

    times: int
    longest_s: float
    baseline_s: float


def usual_moves(case: Case, findings: Sequence[Finding]) -> dict[str, UsualMove]:
    """By the id of a bad metric finding; one without an id by its sentence."""
    requested_findings = [finding for finding in findings if _is_compared(finding)]
    requested_findings.sort(key=lambda finding: (-finding.strength, finding.sentence))
    requested_findings = requested_findings[:MOST]
    # The series of each service and signal, each read once for a case.
    pairs = {(finding.subject, finding.signal or "") for finding in requested_findings}
    series_of: dict[tuple[str, str], MetricSeries] = case.derived.setdefault("metric_series", {})
    series_of.update(_read(case, pairs - series_of.keys()))
    window_s = metric_windows(case).search.seconds
    usuals_by_id = {}
    for finding in requested_findings:
        series = series_of.get((finding.subject, finding.signal or ""))
        usual = _usual_move(finding, series, window_s) if series is not None else None
        if usual is not None:
            usuals_by_id[finding.id or finding.sentence] = usual
    return usuals_by_id


def _is_compared(finding: Finding) -> bool:
    if finding.kind != METRIC_SHIFT or not finding.details.bad or finding.strength < CLEAR:
        return False
    # A counter only rises: its baseline never comes back to a level.
    return bool(finding.signal) and not re.search(COUNTER, finding.signal or "")


class Points(NamedTuple):
    """Times (s), rising, and values."""

    times: Floats
    values: Floats


class MetricSeries(NamedTuple):
    """The points of the baseline, and those of the searched window."""

    before: Points
    now: Points


def _read(case: Case, pairs: set[tuple[str, str]]) -> dict[tuple[str, str], MetricSeries]:
    if not pairs:
        return {}
    windows = metric_windows(case)
    schema = {"service": pl.String, "signal": pl.String}
    keys = pl.DataFrame(sorted(pairs), schema=schema, orient="row")
    rows = case.metrics.filter(pl.col("value").abs() <= LARGEST)
    rows = rows.join(keys, on=["service", "signal"], how="semi").with_columns(
        windows.in_search("time").alias("now"), windows.in_baseline("time").alias("before")
    )
    rows = (
        rows.filter(pl.col("now") | pl.col("before"))
        .group_by("service", "signal", "now", "time")
        .agg(pl.col("value").mean())
        .sort("time")
        .with_columns((pl.col("time").dt.epoch("ns") / 1e9).alias("seconds"))
    )
    metric_series: dict[tuple[str, str], MetricSeries] = {}
    for (service, signal), part in rows.partition_by("service", "signal", as_dict=True).items():
        before, now = part.filter(~pl.col("now")), part.filter("now")
        metric_series[str(service), str(signal)] = MetricSeries(_points(before), _points(now))
    return metric_series


def _points(rows: pl.DataFrame) -> Points:
    return Points(rows["seconds"].to_numpy(), rows["value"].to_numpy())


def _usual_move(finding: Finding, series: MetricSeries, window_s: float) -> UsualMove | None:
    """The move in the baseline; None where it is rarer or shorter than the incident's."""
    level, moved = finding.numbers.get("baseline"), finding.numbers.get("incident")
    before, now = series
    if level is None or moved is None or len(before.times) < 2 or not len(now.times):
        return None
    half, up = level + HALF_WAY * (moved - level), moved > level
    lasting = max(_stretches(now, half, up=up), default=0.0)
    if lasting <= 0:
        return None
    # A shorter move of the baseline is another kind of move.
    earlier = [length for length in _stretches(before, half, up=up) if length >= HALF_WAY * lasting]
    span = float(before.times[-1] - before.times[0])
    if len(earlier) < LEAST_TIMES or span <= 0:
        return None
    per_window = len(earlier) * window_s / span
    return UsualMove(len(earlier), max(earlier), span) if per_window >= PER_WINDOW else None


def _stretches(points: Points, half: float, *, up: bool) -> Iterator[float]:
    """Length (s) of each run of points that reach `half`."""
    reached = points.values >= half if up else points.values <= half
    return stretches(points.times, reached)
