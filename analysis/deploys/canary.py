"""The parts of a service that got the deploy beside the rest of it, at the same time.

What happens to all of them at once (traffic, a slow database, the hour) is in both and cancels.
Where the same parts ran before the deploy (a cluster, a region), their usual difference is the
quiet past. Where they are new (a version, pods), the difference is held against how much it
varies from one stretch of the window to the next.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.deploys.judged_signals import JudgedSeries
from faultline.analysis.deploys.quiet_test import (
    QuietTest,
    WindowScale,
    quantile,
    quiet_test,
    upper_tail,
    window_means,
)

Floats = NDArray[np.float64]

COME_AND_GO = ("version", "pod", "instance")
"""Parts that a rollout replaces. Of others only the caller knows which ones got the deploy."""
STRETCHES = 6
"""Into how many stretches the window is cut where there is no past: 5 degrees of freedom."""
LEAST_POINTS = 2 * STRETCHES
LASTED = 0.5
"""Least share of the window in which an old part still reports, to be what is compared with."""


@dataclass(frozen=True)
class Canary:
    """One signal of the parts with the deploy, and of the rest."""

    kind: str
    names: tuple[str, ...]
    rest: tuple[str, ...]
    canary_series: JudgedSeries
    rest_series: JudgedSeries
    is_new: bool


def canaries(
    series: Sequence[JudgedSeries], start: float, end: float, named: Mapping[str, str]
) -> list[Canary]:
    """Of each signal that is known by parts, the comparison by the first kind of part that tells
    new from old. `named` are the parts with the deploy, by kind, where the caller says so."""
    by_signal: dict[tuple[str, str | None], list[JudgedSeries]] = defaultdict(list)
    for judged_series in series:
        if judged_series.parts is not None:
            by_signal[judged_series.signal, judged_series.unit].append(judged_series)
    comparisons = []
    for parts in by_signal.values():
        for kind in named or COME_AND_GO:
            canary = _canary(parts, kind, named.get(kind), start, end)
            if canary is not None:
                comparisons.append(canary)
                break
    return comparisons


def _canary(
    parts: Sequence[JudgedSeries], kind: str, part_name: str | None, start: float, end: float
) -> Canary | None:
    by_name: dict[str, list[JudgedSeries]] = defaultdict(list)
    for part in parts:
        name = (part.parts or {}).get(kind)
        if name is not None:
            by_name[name].append(part)
    canary_names: list[str] = []
    rest: list[str] = []
    for name, members in sorted(by_name.items()):
        times = np.concatenate([member.times for member in members])
        if not _lasts(times, members[0].interval_s, start, end):
            continue
        # Without a name, what did not report before the deploy is what the deploy brought.
        is_canary = name == part_name if part_name is not None else not bool((times < start).any())
        (canary_names if is_canary else rest).append(name)
    # A part that began within the warm-up is new as well, which `start` already leaves out.
    if not canary_names or not rest:
        return None
    mine = [member for name in canary_names for member in by_name[name]]
    other_members = [member for name in rest for member in by_name[name]]
    return Canary(
        kind,
        tuple(canary_names),
        tuple(rest),
        _mean_of(mine),
        _mean_of(other_members),
        is_new=part_name is None,
    )


def _lasts(times: Floats, interval_s: float, start: float, end: float) -> bool:
    inside = int(((times >= start) & (times <= end)).sum())
    return inside > 0 and not inside * interval_s < LASTED * (end - start)


def _mean_of(members: Sequence[JudgedSeries]) -> JudgedSeries:
    """The members as one series: the mean of those that have a point in an interval."""
    if len(members) == 1:
        return members[0]
    first = members[0]
    interval = max(1.0, float(np.nanmedian([member.interval_s for member in members])))
    times = np.concatenate([member.times for member in members])
    values = np.concatenate([member.values for member in members])
    # Parts report at different moments: only those of one interval can be averaged.
    places = np.floor(times / interval).astype(np.int64)
    buckets, inverse = np.unique(places, return_inverse=True)
    usable = np.isfinite(values)
    counts = np.bincount(inverse[usable], minlength=len(buckets))
    sums = np.bincount(inverse[usable], values[usable], minlength=len(buckets))
    means: Floats = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return JudgedSeries(
        first.signal,
        first.unit,
        first.group,
        (buckets * interval).astype(np.float64),
        means,
        is_share=first.is_share,
        is_rest=first.is_rest,
        falls=first.falls,
        per_second=first.per_second,
        parts=first.parts,
    )


@dataclass(frozen=True)
class CanaryTest:
    """The result. Levels are as the signal is recorded."""

    p: float
    rest: float
    canary_level: float
    windows: int
    detectable: float
    over: bool
    """Whether the last third no longer shows it."""


def canary_test(
    canary: Canary,
    window: tuple[float, float],
    last_third: float,
    needed: float,
    requests: float | None,
) -> CanaryTest | None:
    """Whether the parts with the deploy are worse than the rest; None where too little is
    known."""
    start, end = window
    window_scale = WindowScale(canary.canary_series, end - start, requests)
    scale = WindowScale(canary.rest_series, end - start, requests)
    if canary.is_new:
        return _within(window_scale, scale, window, needed)
    before, level = _levels(window_scale, start, end)
    before_rest, level_rest = _levels(scale, start, end)
    both = min(len(before), len(before_rest))
    if both == 0:
        return None
    # Both end at the deploy, so the last windows match in time.
    gaps = before[-both:] - before_rest[-both:]
    # The noise of a difference is that of both sides together.
    floor = window_scale.floor * math.sqrt(2)
    outcome: QuietTest | None = quiet_test(gaps, level - level_rest, floor, needed)
    if outcome is None:
        return None
    usual = level_rest + outcome.centre
    detectable = window_scale.shown(level_rest + outcome.detectable)
    shown = window_scale.shown(usual), window_scale.shown(level)
    gap_lately = window_scale.level_between(last_third, end) - scale.level_between(last_third, end)
    over = window_scale.is_over(usual, level, level_rest + gap_lately)
    return CanaryTest(outcome.p, *shown, outcome.windows, detectable, over)


def _levels(scale: WindowScale, start: float, end: float) -> tuple[Floats, float]:
    means, mean = window_means(scale.series.times, scale.points(), start, end)
    return scale.levels(means), float(scale.levels(np.array([mean]))[0])


def _within(
    canary_scale: WindowScale, rest_scale: WindowScale, window: tuple[float, float], needed: float
) -> CanaryTest | None:
    """By the stretches of the window itself. Of a burst they differ so much that it is not
    certain."""
    start, end = window
    mine, rest = [*_stretches(canary_scale, start, end)], [*_stretches(rest_scale, start, end)]
    gaps = np.array(mine) - np.array(rest)
    gaps = gaps[np.isfinite(gaps)]
    inside = (canary_scale.series.times >= start) & (canary_scale.series.times <= end)
    if len(gaps) < STRETCHES or int(inside.sum()) < LEAST_POINTS:
        return None
    degrees = len(gaps) - 1
    # A whole window's noise is at least that of two levels.
    noise = max(float(gaps.std(ddof=1)) / math.sqrt(len(gaps)), canary_scale.floor * math.sqrt(2))
    gap, level = float(gaps.mean()), float(np.mean(rest))
    detectable = canary_scale.shown(level + quantile(needed, degrees) * noise)
    p = upper_tail(gap / noise, degrees)
    shown = canary_scale.shown(level), canary_scale.shown(level + gap)
    return CanaryTest(p, *shown, len(gaps), detectable, over=False)


def _stretches(scale: WindowScale, start: float, end: float) -> Iterator[float]:
    """The level of each stretch; NaN where nothing was recorded."""
    times, points = scale.series.times, scale.points()
    usable = np.isfinite(points)
    edges = np.linspace(start, end, STRETCHES + 1)
    for first, last in pairwise(edges):
        inside = usable & (times >= first) & (times <= last)
        yield (
            float(scale.levels(np.array([points[inside].mean()]))[0]) if inside.any() else math.nan
        )
