"""Every series of a block beside its baseline: centre and noise, the departure, its onset, and how
usual it is.

The baseline and the searched points of a row are one stretch of columns; `cut` is the column at
which the baseline ends. It lies where the incident window begins, unless the trouble began earlier:
then the second half of the baseline is searched too, against the first, and the baseline ends at
the onset.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.metrics.change_points import Onset, likeliest_onset
from analysis.metrics.quiet_windows import quiet_share
from analysis.metrics.seasonality import Days, same_hours
from analysis.metrics.series import MIN_BASELINE_POINTS, Block
from analysis.metrics.shift_statistics import (
    DRIFT,
    Baseline,
    Bools,
    Departure,
    Floats,
    Ints,
    describe,
    find_departures,
    row_medians,
)

BRIEF_POINTS = 2
"""A departure of at most so few points must go beyond every baseline point: a bursty series has its
spikes always."""
FLAT_FLOOR = 0.1
"""A flat baseline is given a tenth of the same signal's usual scale on other services, or of its
own move."""
LAST_POINTS = 3
SUSTAINED = 5
"""So many departed points, or half of those searched, are more than a burst: alert rules wait five
minutes as well."""
LOOK_BACK = 2
"""An onset may lie before the incident window by so many times its points, and at most by half the
baseline."""
MIN_SIGMAS = 3.0
"""An earlier incident in the baseline lies at least so far out, by a scale that it widens
itself."""
CLEAR_SIGMAS = 4.0
"""How far out an earlier onset's trouble must be: it is found against half a baseline."""

MOST_OF_BASELINE = 0.25
"""An earlier incident may take a quarter of the baseline; what takes more is how the series is."""
MOSTLY = 0.75
"""Of the points from an earlier onset to the window so many are out of the noise: a burst that
ended is no onset."""
MIN_BEFORE = 10
"""Points of the first half of a baseline, for a centre and a scale."""

Array = TypeVar("Array", bound=NDArray[Any])


@dataclass(frozen=True)
class Comparison:
    """One row per series. Levels and scale in the series' unit, or as shortfall where `ceiling` is
    finite."""

    keys: pl.DataFrame
    ceiling: Floats
    departed: Bools
    centre: Floats
    scale: Floats
    level: Floats
    end_level: Floats
    sigmas: Floats
    relative: Floats
    points: Ints
    searched: Ints
    baseline_points: Ints
    ended: Bools
    """Whether points follow the departure."""
    seen_before: Bools
    quiet_share: Floats
    days: Days
    onset_ns: Ints
    uncertainty_s: Floats


@dataclass(frozen=True)
class _Search:
    """One search: where each row's baseline was cut, and what was found after the cut."""

    cut: Ints
    base: Baseline
    scale: Floats
    deviations: Floats
    departure: Departure
    level: Floats

    @property
    def sigmas(self) -> Floats:
        """How far the departure's level is from the centre."""
        return np.abs(self.level - self.base.centre) / self.scale


def compare(block: Block) -> Comparison:
    """The comparison of each series of a block with its baseline."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return _compared(block)


def _compared(block: Block) -> Comparison:
    values = np.concatenate([_recent(block), block.values], axis=1)
    times = np.concatenate([block.before_times, block.times], axis=1)
    found = _with_earlier_onsets(values, block)
    columns = np.arange(values.shape[1])[None, :]
    departure = found.departure
    after = np.isfinite(values) & (columns >= block.before.shape[1])
    counted = np.isfinite(values) & (columns >= found.cut[:, None])
    inside = counted & (columns >= departure.first[:, None]) & (columns <= departure.last[:, None])
    points, searched = inside.sum(axis=1), after.sum(axis=1)
    before = np.where(columns < found.cut[:, None], values, np.nan)
    within = np.where(
        departure.up,
        found.level <= np.nanmax(before, axis=1),
        found.level >= np.nanmin(before, axis=1),
    )
    sizes = (found.level - found.base.centre) / found.scale
    onset = likeliest_onset(found.deviations, sizes, found.cut, departure.last)
    return Comparison(
        keys=block.keys,
        ceiling=block.ceiling,
        departed=(departure.first >= 0) & np.isfinite(found.sigmas),
        centre=found.base.centre,
        scale=found.scale,
        level=found.level,
        end_level=row_medians(block.values, np.maximum(searched - LAST_POINTS, 0), searched - 1),
        sigmas=found.sigmas,
        relative=np.abs(found.level - found.base.centre)
        / np.maximum(np.abs(found.level), np.abs(found.base.centre)),
        points=points,
        searched=counted.sum(axis=1),
        baseline_points=found.base.points,
        ended=departure.last < values.shape[1] - 1 - after[:, ::-1].argmax(axis=1),
        seen_before=(points <= BRIEF_POINTS) & within,
        quiet_share=_quiet_share(found, block),
        days=_days(found, block, sizes, points, searched),
        onset_ns=np.take_along_axis(times, np.maximum(onset.at, 0)[:, None], axis=1)[:, 0],
        uncertainty_s=_uncertainty(values, times, found.cut, onset),
    )


def _quiet_share(found: _Search, block: Block) -> Floats:
    """How usual the departure is in the baseline; one earlier incident is no habit, and does not
    hide the next."""
    width, border = block.values.shape[1], block.before.shape[1]
    columns = np.arange(border)[None, :]
    quiet = np.where(columns < found.cut[:, None], found.deviations[:, :border], np.nan)
    earlier = find_departures(quiet)
    long_enough = min(SUSTAINED, (width + 1) // 2)
    forgiven = (_length(found.departure) >= long_enough) & (_length(earlier) >= long_enough)
    return quiet_share(quiet, width, found.departure.score, found.departure.up, forgiven)


def _days(found: _Search, block: Block, sizes: Floats, departed: Ints, searched: Ints) -> Days:
    first = block.times[:, 0]
    last = np.take_along_axis(block.times, np.maximum(searched - 1, 0)[:, None], axis=1)[:, 0]
    deviations = (block.before - found.base.centre[:, None]) / found.scale[:, None]
    return same_hours(
        block.before_times, deviations, (first, last), sizes, np.maximum(departed, 1), searched
    )


def _length(departure: Departure) -> Ints:
    return departure.last - departure.first + 1


def _with_earlier_onsets(values: Floats, block: Block) -> _Search:
    """The search from where the incident window begins; from the onset in rows where that clearly
    lies before it."""
    border = np.full(len(values), block.before.shape[1])
    found = _search(values, block.pooled, border)
    middle = _middle(block)
    early = _search(values, block.pooled, middle)
    columns = np.arange(values.shape[1])[None, :]
    seen = np.isfinite(values) & (columns >= border[:, None])
    still = (
        early.departure.last >= seen.argmax(axis=1) + np.minimum(SUSTAINED, seen.sum(axis=1)) - 1
    )
    sizes = (early.level - early.base.centre) / early.scale
    onset = likeliest_onset(early.deviations, sizes, middle, early.departure.last)
    length = border - onset.at
    begun = (onset.at >= middle) & (length >= SUSTAINED) & still & (early.sigmas >= CLEAR_SIGMAS)
    begun &= (early.base.points >= MIN_BEFORE) & (early.departure.first >= 0)
    between = np.isfinite(values) & (columns >= onset.at[:, None]) & (columns < border[:, None])
    beyond = between & (early.deviations * np.sign(sizes)[:, None] > DRIFT)
    begun &= beyond.sum(axis=1) >= MOSTLY * between.sum(axis=1)
    rows = np.flatnonzero(begun)
    if not len(rows):
        return found
    again = _search(values[rows], block.pooled[rows], onset.at[rows])
    return _replaced(found, rows, again)


def _recent(block: Block) -> Floats:
    """The baseline without the windows of earlier days, where what is left suffices."""
    recent = np.where(block.before_times >= block.recent_ns, block.before, np.nan)
    enough = np.isfinite(recent).sum(axis=1) >= MIN_BASELINE_POINTS
    kept: Floats = np.where(enough[:, None], recent, block.before)
    return kept


def _middle(block: Block) -> Ints:
    """The column from which an earlier onset is looked for."""
    usable = np.isfinite(_recent(block))
    total = usable.sum(axis=1)
    back = np.minimum(total // 2, LOOK_BACK * block.values.shape[1])
    middle: Ints = (np.cumsum(usable, axis=1) <= (total - back)[:, None]).sum(axis=1)
    return middle


def _replaced(found: _Search, rows: Ints, again: _Search) -> _Search:
    base = (
        _with_rows(getattr(found.base, f.name), rows, getattr(again.base, f.name))
        for f in fields(Baseline)
    )
    departure = (
        _with_rows(getattr(found.departure, f.name), rows, getattr(again.departure, f.name))
        for f in fields(Departure)
    )
    return _Search(
        _with_rows(found.cut, rows, again.cut),
        Baseline(*base),
        _with_rows(found.scale, rows, again.scale),
        _with_rows(found.deviations, rows, again.deviations),
        Departure(*departure),
        _with_rows(found.level, rows, again.level),
    )


def _with_rows(old: Array, rows: Ints, new: Array) -> Array:
    out = old.copy()
    out[rows] = new
    return out


def _search(values: Floats, pooled: Floats, cut: Ints) -> _Search:
    columns = np.arange(values.shape[1])[None, :]
    before = np.where(columns < cut[:, None], values, np.nan)
    after = np.where(columns >= cut[:, None], values, np.nan)
    base = _without_one_incident(before)
    own_move = np.nanmax(np.abs(after - base.centre[:, None]), axis=1)
    floor = FLAT_FLOOR * np.where(pooled > 0, pooled, own_move)
    scale = np.where(base.scale > 0, base.scale, floor)
    scale = np.where(scale > 0, scale, 1.0)
    deviations = (values - base.centre[:, None]) / scale[:, None]
    departure = find_departures(np.where(columns >= cut[:, None], deviations, np.nan))
    return _Search(
        cut,
        base,
        scale,
        deviations,
        departure,
        row_medians(values, departure.first, departure.last),
    )


def _without_one_incident(before: Floats) -> Baseline:
    """Centre and noise of the baseline; one earlier incident in it is neither."""
    base = describe(before)
    deviations = (before - base.centre[:, None]) / base.scale[:, None]
    earlier = find_departures(deviations)
    level = np.abs(row_medians(deviations, earlier.first, earlier.last))
    columns = np.arange(before.shape[1])[None, :]
    inside = (
        (columns >= earlier.first[:, None])
        & (columns <= earlier.last[:, None])
        & np.isfinite(before)
    )
    points = inside.sum(axis=1)
    rows = np.flatnonzero(
        (points >= SUSTAINED) & (points <= MOST_OF_BASELINE * base.points) & (level >= MIN_SIGMAS)
    )
    if not len(rows):
        return base
    cleaned = describe(np.where(inside[rows], np.nan, before[rows]))
    return Baseline(
        *(
            _with_rows(getattr(base, f.name), rows, getattr(cleaned, f.name))
            for f in fields(Baseline)
        )
    )


def _uncertainty(values: Floats, times: Ints, cut: Ints, onset: Onset) -> Floats:
    """Seconds from the onset to the point before the earliest it may be, or to the latest if that
    is farther.

    It happened after the last point that was still normal; a break before the window counts as two
    usual steps.
    """
    usable = np.isfinite(values)
    at = np.take_along_axis(times, np.maximum(onset.at, 0)[:, None], axis=1)[:, 0]
    step = np.nanmedian(
        np.where(usable[:, 1:] & usable[:, :-1], np.diff(times, axis=1), np.nan), axis=1
    )
    latest = np.take_along_axis(times, np.maximum(onset.latest, 0)[:, None], axis=1)[:, 0]
    columns = np.arange(values.shape[1])[None, :]
    earlier = usable & (columns < onset.earliest[:, None])
    last = values.shape[1] - 1 - earlier[:, ::-1].argmax(axis=1)
    previous = np.where(
        earlier.any(axis=1), np.take_along_axis(times, last[:, None], axis=1)[:, 0], at
    )
    since = np.where(onset.earliest == cut, np.fmin(at - previous, 2 * step), at - previous)
    seconds: Floats = np.maximum(since, latest - at) / 1e9
    return seconds
