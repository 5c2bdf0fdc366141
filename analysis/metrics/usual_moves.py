"""Moves that a series makes all the time: as far and as long as in the incident, several times in
the baseline.

What happens every half hour is no incident, however far it stands out of the median's noise: the
moves of the baseline are counted, and expected in a window of the incident's length as often as
they came before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from analysis.case.folder import Case
from analysis.case.windows import metric_windows
from analysis.metrics.alert_threshold import stretches
from analysis.metrics.shift_statistics import Floats
from analysis.metrics.shifts import COUNTER, LARGEST
from analysis.metrics.shifts import KIND as METRIC_SHIFT
from analysis.vocabulary import Finding

HALF_WAY = 0.5
"""A move reaches as far when it passes half the way from the baseline's level to the incident's,
and lasts as long from half of the incident's time on."""
LEAST_TIMES = 2
PER_WINDOW = 0.5
"""Expected at least every other time that one looks at a window of the incident's length."""
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
    wanted = [
        f for f in findings if f.kind == METRIC_SHIFT and f.details.bad and f.strength >= CLEAR
    ]
    wanted = [f for f in wanted if f.signal and not re.search(COUNTER, f.signal)]
    wanted = sorted(wanted, key=lambda f: (-f.strength, f.sentence))[:MOST]
    points = _points(case, {(f.subject, f.signal or "") for f in wanted})
    length = metric_windows(case).search.seconds
    found = {}
    for finding in wanted:
        series = points.get((finding.subject, finding.signal or ""))
        usual = _usual(finding, *series, length) if series is not None else None
        if usual is not None:
            found[finding.id or finding.sentence] = usual
    return found


Series = tuple[tuple[Floats, Floats], tuple[Floats, Floats]]
"""Times (s) and values of the baseline, and of the searched window."""


def _points(case: Case, wanted: set[tuple[str, str]]) -> Mapping[tuple[str, str], Series]:
    if not wanted:
        return {}
    windows = metric_windows(case)
    keys = pl.DataFrame(
        sorted(wanted), schema={"service": pl.String, "signal": pl.String}, orient="row"
    )
    rows = case.metrics.filter(pl.col("value").abs() <= LARGEST).join(
        keys, on=["service", "signal"], how="semi"
    )
    rows = rows.with_columns(
        windows.in_search("time").alias("now"), windows.in_baseline("time").alias("before")
    )
    rows = rows.filter(pl.col("now") | pl.col("before"))
    rows = (
        rows.group_by("service", "signal", "now", "time").agg(pl.col("value").mean()).sort("time")
    )
    rows = rows.with_columns((pl.col("time").dt.epoch("ns") / 1e9).alias("seconds"))
    found: dict[tuple[str, str], Series] = {}
    for (service, signal), own in rows.partition_by("service", "signal", as_dict=True).items():
        times, values, now = (
            own["seconds"].to_numpy(),
            own["value"].to_numpy(),
            own["now"].to_numpy(),
        )
        found[str(service), str(signal)] = ((times[~now], values[~now]), (times[now], values[now]))
    return found


def _usual(
    finding: Finding, before: tuple[Floats, Floats], now: tuple[Floats, Floats], length: float
) -> UsualMove | None:
    level, moved = finding.numbers.get("baseline"), finding.numbers.get("incident")
    if level is None or moved is None or len(before[0]) < 2 or not len(now[0]):
        return None
    half = level + HALF_WAY * (moved - level)
    lasting = max(_stretches(*now, half, up=moved > level), default=0.0)
    if lasting <= 0:
        return None
    earlier = [s for s in _stretches(*before, half, up=moved > level) if s >= HALF_WAY * lasting]
    span = float(before[0][-1] - before[0][0])
    if len(earlier) < LEAST_TIMES or span <= 0 or len(earlier) * length / span < PER_WINDOW:
        return None
    return UsualMove(len(earlier), max(earlier), span)


def _stretches(times: Floats, values: Floats, half: float, *, up: bool) -> Iterator[float]:
    """Length (s) of each run of points that reach `half`."""
    return stretches(times, values >= half if up else values <= half)
