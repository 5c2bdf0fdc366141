"""The alert's threshold against the signal's own past: is what fired really out, or does it happen
all the time?

Read only where the alert names service, signal and threshold, and the collected series is in the
alert's unit: it must show what the alert observed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import metric_windows
from faultline.analysis.kinds.finding_details import AlertHistoryDetails
from faultline.analysis.kinds.finding_kinds import THRESHOLD_IN_NORMAL_RANGE
from faultline.analysis.kinds.signals import classify, is_bad, is_headroom
from faultline.analysis.metrics.shift_statistics import Bools, Floats
from faultline.analysis.metrics.shifts import COUNTER, LARGEST, MIN_BASELINE_POINTS
from faultline.analysis.vocabulary import Alert, Finding
from faultline.analysis.wording.amounts import amount, unit_of
from faultline.analysis.wording.phrases import number, plain, rounded

KIND = THRESHOLD_IN_NORMAL_RANGE.name
NORMAL_SHARE = 0.05
"""A threshold that one baseline point in twenty crosses goes off up to 72 times a day at one point
a minute."""
MOSTLY = 0.5
LEAST_RUNS = 2
"""Crossed in two separate stretches, or most of the time: one stretch may be the beginning of the
incident itself."""
SHOWN = 0.25
"""The series shows what the alert observed when it comes as near as a quarter of it: monitors
average over windows."""
SCALES = (100.0, 1000.0)
"""Percent and ratio, seconds and milliseconds: the same quantity in another unit."""
MARGIN = 0.1
"""The threshold that is proposed lies a tenth of the baseline's span beyond its farthest point."""
STRENGTH = 0.6


@dataclass(frozen=True)
class SignalPoints:
    """The alerting signal: times (s since 1970) and values of the baseline and of the searched
    window, in order."""

    before: tuple[Floats, Floats]
    now: tuple[Floats, Floats]
    unit: str


@dataclass(frozen=True)
class ThresholdReading:
    """What the baseline says about the threshold. `shown`: whether the series has what the alert
    observed.

    `share` of the baseline's points beyond it, in `runs` stretches of at most `longest_s`;
    `farthest` in its direction.
    """

    threshold: float
    above: bool
    observed: float | None
    shown: bool
    share: float
    runs: int
    longest_s: float
    farthest: float
    centre: float
    unit: str

    @property
    def in_normal_range(self) -> bool:
        """The baseline crosses it as a matter of course, and what was observed is nothing the
        baseline had not."""
        usual = self.share >= MOSTLY or (self.share >= NORMAL_SHARE and self.runs >= LEAST_RUNS)
        return self.shown and usual and not self.beyond_baseline

    @property
    def beyond_baseline(self) -> bool:
        """What the alert observed lies beyond every point of the baseline."""
        if self.observed is None:
            return False
        return self.observed > self.farthest if self.above else self.observed < self.farthest

    @property
    def really_out(self) -> bool:
        """The alert saw what the baseline never had, and the series shows it: whatever else is
        calm, this is real."""
        return self.shown and self.beyond_baseline and self.share < NORMAL_SHARE


def threshold_findings(case: Case) -> list[Finding]:
    """One finding when the threshold is in the signal's normal range."""
    reading = read_threshold(case)
    if reading is None or not reading.in_normal_range:
        return []
    alert = case.alert
    service, signal = alert.service or "", alert.signal or ""
    unit = unit_of(signal, reading.unit or None, (reading.threshold, reading.farthest))
    side, change = ("above", "Raise") if reading.above else ("below", "Lower")
    # Measure from the centre: a level far from zero must not stretch the margin.
    margin = MARGIN * abs(reading.farthest - reading.centre)
    if not reading.above:
        margin = -margin
    threshold, proposed = rounded(reading.threshold), rounded(reading.farthest + margin, 3)
    percent = rounded(100 * reading.share, 2)
    sentence = (
        f"{plain(service)} {plain(signal)} was {side} the alert's threshold of "
        f"{amount(threshold, unit)} in {number(percent, 2)} % of the baseline: the threshold lies "
        "in its normal range."
    )
    numbers = {"threshold": threshold, "percent_of_baseline": percent, "proposed": proposed}
    fix = (
        f"{change} the threshold to about {amount(proposed, unit)}, which it never reached in "
        "normal operation"
    )
    if reading.share < MOSTLY and reading.longest_s >= 1:
        minutes = max(1.0, float(np.ceil(reading.longest_s / 60)) + 1)
        numbers["wait_min"] = minutes
        fix += (
            f", or let it wait for {number(minutes)} min: no crossing lasted that long in normal "
            "operation"
        )
    finding = Finding(
        id="",
        kind=KIND,
        subject=service,
        signal=alert.signal,
        strength=STRENGTH,
        sentence=sentence,
        numbers=numbers,
        evidence=case.evidence_ids("metrics"),
        series={"table": "metrics", "service": service, "signal": signal},
        details=AlertHistoryDetails(fix=fix + ".", runs=reading.runs, unit=reading.unit),
    )
    return [finding]


def read_threshold(case: Case) -> ThresholdReading | None:
    """The reading; None without threshold or baseline, or where the series is a counter or in
    another unit."""
    threshold = case.alert.threshold
    points = signal_points(case)
    if threshold is None or points is None or not np.isfinite(threshold):
        return None
    (times, before), (_, now) = points.before, points.now
    if len(before) < MIN_BASELINE_POINTS or not len(now):
        return None
    observed = case.alert.observed
    if observed is not None and not np.isfinite(observed):
        observed = None
    above = fires_above(case.alert)
    shown = _shows(now, observed, threshold, above)
    # In another unit every comparison with the threshold would be wrong.
    if not shown and _in_other_unit(now, observed if observed is not None else threshold):
        return None
    beyond: Bools = before > threshold if above else before < threshold
    lengths = list(stretches(times, beyond))
    return ThresholdReading(
        threshold=threshold,
        above=above,
        observed=observed,
        shown=shown,
        share=float(beyond.mean()),
        runs=len(lengths),
        longest_s=max(lengths, default=0.0),
        farthest=float(before.max() if above else before.min()),
        centre=float(np.median(before)),
        unit=points.unit,
    )


def fires_above(alert: Alert) -> bool:
    """Whether the alert fires above its threshold: by what it observed, else by what is bad for
    such a signal."""
    compared = alert.watches.comparison if alert.watches is not None else None
    if compared is not None and compared[0] in "<>":
        return compared[0] == ">"
    observed, threshold = alert.observed, alert.threshold
    # On the threshold itself, the observed value does not tell the direction.
    if observed is not None and threshold is not None and observed != threshold:
        return observed > threshold
    signal = alert.signal or ""
    return is_bad(classify(signal), "up", headroom=is_headroom(signal))


def signal_points(case: Case) -> SignalPoints | None:
    """The alerting signal's points, the mean where labels split it; None where it is not there or a
    counter."""
    if "signal_points" not in case.derived:
        case.derived["signal_points"] = _read_points(case)
    points: SignalPoints | None = case.derived["signal_points"]
    return points


def _read_points(case: Case) -> SignalPoints | None:
    alert = case.alert
    if not (alert.service and alert.signal and case.metrics.height):
        return None
    rows = case.metrics.filter(
        pl.col("service") == alert.service,
        pl.col("signal") == alert.signal,
        pl.col("value").abs() <= LARGEST,
    )
    # A counter's level says nothing: an alert compares its increase.
    if not rows.height or rows["signal"].str.contains(COUNTER).any():
        return None
    # Sorted, so that the first unit is the same in every run.
    units = [unit for unit in rows["unit"].unique().sort().to_list() if unit]
    rows = rows.group_by("time").agg(pl.col("value").mean()).sort("time")
    windows = metric_windows(case)
    return SignalPoints(
        _columns(rows.filter(windows.in_baseline("time"), ~windows.in_search("time"))),
        _columns(rows.filter(windows.in_search("time"))),
        units[0] if units else "",
    )


def _columns(rows: pl.DataFrame) -> tuple[Floats, Floats]:
    return rows["time"].dt.epoch("ns").to_numpy() / 1e9, rows["value"].to_numpy().astype(np.float64)


def _shows(now: Floats, observed: float | None, threshold: float, above: bool) -> bool:
    """Whether the window's points hold what was observed, within a quarter of it; else whether they
    cross the threshold, and not by so much that they must be in another unit."""
    low, high = float(now.min()), float(now.max())
    if observed is not None:
        slack = SHOWN * abs(observed)
        return low - slack <= observed <= high + slack
    crossed = high >= threshold if above else low <= threshold
    if not crossed or not threshold:
        return crossed
    # A series far beyond the threshold is in another unit, for instance percent beside ratio.
    times_threshold = abs(float(np.median(now)) / threshold)
    return times_threshold <= SCALES[0] * (1 - SHOWN)


def _in_other_unit(now: Floats, threshold: float) -> bool:
    """Whether the points show the wanted value once they are converted."""
    low, high = float(now.min()), float(now.max())
    # No factor turns a value at or below zero into a positive threshold.
    if high <= 0:
        return False
    for scale in SCALES:
        for factor in (scale, 1 / scale):
            if low * factor * (1 - SHOWN) <= threshold <= high * factor * (1 + SHOWN):
                return True
    return False


def stretches(times: Floats, beyond: Bools) -> Iterator[float]:
    """Length (s) of each run of points that are beyond; a point alone counts one usual step.
    `times` (s) rise."""
    if not beyond.any():
        return
    step = float(np.median(np.diff(times))) if len(times) > 1 else 60.0
    edges = np.diff(np.concatenate([[False], beyond, [False]]).astype(np.int8))
    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    for first, end in zip(begins, ends, strict=True):
        yield float(times[end - 1] - times[first]) + step
