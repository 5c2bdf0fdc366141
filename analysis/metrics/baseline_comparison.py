"""Every series of a block beside its baseline: centre and noise, the departure, its onset, and how
usual it is.

The baseline and the searched points of a row are one stretch of columns; `cut` is the column at
which the baseline ends. It lies where the incident window begins, unless the incident began before
that: then the second half of the baseline is searched too, against the first, and the baseline ends
at the onset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from faultline.analysis.kinds.signals import classify
from faultline.analysis.metrics.seasonality import Days, same_hours
from faultline.analysis.metrics.series import MIN_BASELINE_POINTS, Block
from faultline.analysis.metrics.shift_statistics import (
    DRIFT,
    Baseline,
    Bools,
    Departure,
    Floats,
    Ints,
    OnsetInterval,
    describe,
    find_departures,
    likeliest_onset,
    quiet_share,
    row_medians,
)
from faultline.analysis.metrics.slow_curves import FOLLOW_THE_DAY, slow_curves

BRIEF_POINTS = 2
"""A departure of at most this many points must go beyond every baseline point: a bursty series
always has spikes."""
FLAT_FLOOR = 0.1
"""A flat baseline is given a tenth of the same signal's usual scale on other services, or of its
own move."""
LAST_POINTS = 3
SUSTAINED = 5
"""This many departed points, or half of those searched, are more than a burst: alert rules wait
five minutes as well."""
LOOK_BACK = 2
"""An onset may lie before the incident window by this many times its points, and at most by half
the baseline."""
MIN_SIGMAS = 3.0
"""An earlier incident in the baseline lies at least this far out, by a scale that it widens
itself."""
CLEAR_SIGMAS = 4.0
"""How far out what began earlier must be: it is found against half a baseline."""

MOST_OF_BASELINE = 0.25
"""An earlier incident may take a quarter of the baseline; what takes more is how the series is."""
MOSTLY = 0.75
"""Least share of the points from an earlier onset to the window that is out of the noise: a burst
that ended is no onset."""
HALF_WAY = 0.5
"""A move that takes long to come this far may begin with a drift."""
MOST_OF_MOVE = 0.6
"""What one step makes of a move for the rest to be a drift."""
MIN_BEFORE = 10
"""Points of the first half of a baseline, for a centre and a scale."""
ASIDE_NS = 900_000_000_000
"""The size of a step is measured in the quarter hour on either side of it: what happens to a
series hours before or after is not the step."""
LEAST_ASIDE = 8
"""Or in this many points, where they are rare."""
WENT_ON = 1.25
"""What moved on by a quarter of its step, as a leak does, is measured where it went."""
REACHED_NS = 300_000_000_000
"""Where it went is what the last five minutes show."""
PASSING = 0.5
"""What is back for most of the quarter hour after its onset comes in bursts: then all of the
departure says how far they reach."""

Array = TypeVar("Array", bound=NDArray[Any])


@dataclass(frozen=True)
class SeriesComparison:
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
    interval_s: Floats
    """Usual time between two points; NaN where there is only one."""
    searched: Ints
    baseline_points: Ints
    ended: Bools
    """Whether points follow the departure."""
    within_baseline: Bools
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


# Rows without points give NaN, as intended.
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def compare(block: Block) -> SeriesComparison:
    """The comparison of each series of a block with its baseline."""
    raw = np.concatenate([_recent(block), block.values], axis=1)
    times = np.concatenate([block.before_times, block.times], axis=1)
    border = block.before.shape[1]
    of_the_day = np.array([classify(s) in FOLLOW_THE_DAY for s in block.keys["signal"]], dtype=bool)
    curve, doubt = slow_curves(raw, times, border, of_the_day)
    values = raw - curve
    search = _with_earlier_onsets(values, block, doubt)
    departure = search.departure
    columns = _columns(values)
    in_window = np.isfinite(values) & (columns >= border)
    counted = np.isfinite(values) & (columns >= search.cut[:, None])
    inside = counted & (columns >= departure.first[:, None]) & (columns <= departure.last[:, None])
    points, searched = inside.sum(axis=1), in_window.sum(axis=1)
    sizes = (search.level - search.base.centre) / search.scale
    onset = likeliest_onset(search.deviations, sizes, search.cut, departure.last)
    # An excursion may begin with points that are only just out of the noise. The step is that to
    # the level which came of it.
    level = _level_after(values, times, onset.at, search, search.base.centre)
    steps = (level - search.base.centre) / search.scale
    onset = likeliest_onset(search.deviations, steps, search.cut, departure.last)
    onset = _after_a_drift(values, search, onset)
    # Of what follows a curve, the level before is that just before the step.
    first = np.maximum(onset.at, 0)
    earlier = np.isfinite(values) & (columns < onset.at[:, None])
    near = times >= (_at(times, first) - ASIDE_NS)[:, None]
    back = earlier[:, ::-1].cumsum(axis=1)[:, ::-1]
    before_step = _middle(values, earlier & (near | (back <= LEAST_ASIDE)))
    centre = np.where(curve.any(axis=1), before_step, search.base.centre)
    level = _level_after(values, times, onset.at, search, centre)
    # Where on its curve the step happened.
    place = np.where(onset.at >= 0, curve[np.arange(len(curve)), first], 0.0)
    sigmas = np.abs(level - centre) / search.scale
    end_level = row_medians(values[:, border:], np.maximum(searched - LAST_POINTS, 0), searched - 1)
    largest = np.maximum(np.abs(level + place), np.abs(centre + place))
    # Whether the baseline reached the departure's level as well.
    before = np.where(_columns(values) < search.cut[:, None], values, np.nan)
    below_highest = search.level <= np.nanmax(before, axis=1)
    above_lowest = search.level >= np.nanmin(before, axis=1)
    within: Bools = np.where(search.departure.up, below_highest, above_lowest)
    return SeriesComparison(
        keys=block.keys,
        ceiling=block.ceiling,
        departed=(departure.first >= 0) & np.isfinite(sigmas),
        centre=centre + place,
        scale=search.scale,
        level=level + place,
        end_level=end_level + place,
        sigmas=sigmas,
        # A share of the larger level stays bounded when one of the two is near zero.
        relative=np.abs(level - centre) / largest,
        points=points,
        interval_s=_intervals(times),
        searched=counted.sum(axis=1),
        baseline_points=search.base.points,
        ended=departure.last < _last_true(in_window),
        within_baseline=(points <= BRIEF_POINTS) & within,
        quiet_share=_quiet_share(search, block),
        days=_days(search, block, sizes, points, searched),
        onset_ns=_at(times, first),
        uncertainty_s=_uncertainty(values, times, search.cut, onset),
    )


def _after_a_drift(values: Floats, search: _Search, onset: OnsetInterval) -> OnsetInterval:
    """The onset, but that of the step in rows where one step makes most of the move: a drift before
    it, such as the rest of a day's curve, is not how it began."""
    side = np.where(search.departure.up, 1.0, -1.0)
    columns, last = _columns(values), search.departure.last
    after = (columns >= onset.at[:, None]) & (columns <= last[:, None])
    second_half = after & (2 * columns > (onset.at + last)[:, None])
    size = side * (_middle(values, second_half) - search.base.centre)
    far = (side[:, None] * (values - search.base.centre[:, None])) >= HALF_WAY * size[:, None]
    half = (far & after).argmax(axis=1)
    at = onset.at.copy()
    for row in np.flatnonzero((onset.at >= 0) & (half - onset.at >= SUSTAINED)):
        usable = np.flatnonzero(np.isfinite(values[row]))
        if len(usable) < 2 * SUSTAINED:
            continue
        middles = np.median(sliding_window_view(values[row, usable], SUSTAINED), axis=1)
        steps = side[row] * (middles[SUSTAINED:] - middles[:-SUSTAINED])
        moves = side[row] * (middles[SUSTAINED:] - search.base.centre[row])
        begins = usable[SUSTAINED : SUSTAINED + len(steps)]
        steps = np.where(after[row, begins], steps, -np.inf)
        largest = int(steps.argmax())
        while steps[largest] >= MOST_OF_MOVE * moves[largest] > 0:
            at[row] = begins[largest]
            # What came before it may have been a step as well, as in a rollout in stages.
            steps[max(0, largest - SUSTAINED) :] = -np.inf
            largest = int(steps.argmax())
    moved = at != onset.at
    return OnsetInterval(at, np.where(moved, at, onset.earliest), np.where(moved, at, onset.latest))


def _level_after(
    values: Floats, times: Ints, onset: Ints, search: _Search, centre: Floats
) -> Floats:
    """The level that the departure stepped to; where it went, if it went on."""
    columns, last = _columns(values), search.departure.last
    usable = np.isfinite(values) & (columns >= onset[:, None]) & (columns <= last[:, None])
    begun, ended = _at(times, np.maximum(onset, 0)), _at(times, np.maximum(last, 0))
    forth, back = usable.cumsum(axis=1), usable[:, ::-1].cumsum(axis=1)[:, ::-1]
    first_minutes = (times <= (begun + ASIDE_NS)[:, None]) | (forth <= LEAST_ASIDE)
    last_minutes = (times >= (ended - REACHED_NS)[:, None]) | (back <= LAST_POINTS)
    step, reached = _middle(values, usable & first_minutes), _middle(values, usable & last_minutes)
    side = np.where(search.departure.up, 1.0, -1.0)
    moved = side * (step - centre)
    went_on = side * (reached - centre) > WENT_ON * moved
    # The last points are few: by chance they differ from the others too.
    went_on &= side * (reached - step) > DRIFT * search.scale
    level = np.where(went_on, reached, step)
    passing = moved < PASSING * side * (search.level - centre)
    out: Floats = np.where(passing & ~went_on, search.level, level)
    return out


def _middle(values: Floats, mask: Bools) -> Floats:
    chosen = np.where(mask, values, np.nan)
    last = np.full(len(values), values.shape[1] - 1)
    return row_medians(chosen, np.zeros_like(last), last)


def _intervals(times: Ints) -> Floats:
    """Of each row of times (ns, 0 where there is no point) the middle distance in seconds."""
    steps = np.diff(times).astype(np.float64)
    steps[(times[:, :-1] <= 0) | (times[:, 1:] <= 0)] = np.nan
    has_steps = np.isfinite(steps).any(axis=1)
    paths = np.full(len(times), np.nan)
    if has_steps.any():
        paths[has_steps] = np.nanmedian(steps[has_steps], axis=1) / 1e9
    return paths


def _columns(values: Floats) -> Ints:
    """The numbers of the columns, as a row."""
    return np.arange(values.shape[1])[None, :]


def _at(matrix: Ints, column: Ints) -> Ints:
    """The value of each row in its column."""
    return np.take_along_axis(matrix, column[:, None], axis=1)[:, 0]


def _last_true(mask: Bools) -> Ints:
    """The last column of each row that is true; the last column of all where none is."""
    last: Ints = mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)
    return last


def _quiet_share(search: _Search, block: Block) -> Floats:
    """How usual the departure is in the baseline; one earlier incident is no habit, and does not
    hide the next."""
    width, border = block.values.shape[1], block.before.shape[1]
    columns = np.arange(border)[None, :]
    quiet = np.where(columns < search.cut[:, None], search.deviations[:, :border], np.nan)
    earlier = find_departures(quiet)
    long_enough = min(SUSTAINED, (width + 1) // 2)
    forgiven = (_length(search.departure) >= long_enough) & (_length(earlier) >= long_enough)
    return quiet_share(quiet, width, search.departure.score, search.departure.up, forgiven)


def _days(search: _Search, block: Block, sizes: Floats, departed: Ints, searched: Ints) -> Days:
    first = block.times[:, 0]
    last = _at(block.times, np.maximum(searched - 1, 0))
    deviations = (block.before - search.base.centre[:, None]) / search.scale[:, None]
    return same_hours(
        block.before_times, deviations, (first, last), sizes, np.maximum(departed, 1), searched
    )


def _length(departure: Departure) -> Ints:
    return departure.last - departure.first + 1


def _with_earlier_onsets(values: Floats, block: Block, doubt: Floats) -> _Search:
    """The search from where the incident window begins; from the onset in rows where that clearly
    lies before it."""
    border = np.full(len(values), block.before.shape[1])
    search = _search(values, block.pooled, border, doubt)
    # The column from which an earlier onset is looked for.
    usable = np.isfinite(_recent(block))
    total = usable.sum(axis=1)
    # Look back by twice the window, but leave half of the baseline to compare with.
    back = np.minimum(total // 2, LOOK_BACK * block.values.shape[1])
    middle: Ints = (np.cumsum(usable, axis=1) <= (total - back)[:, None]).sum(axis=1)
    early = _search(values, block.pooled, middle, doubt)
    sizes = (early.level - early.base.centre) / early.scale
    onset_of_early = likeliest_onset(early.deviations, sizes, middle, early.departure.last)
    begun = _began_earlier(values, border, early, middle, onset_of_early)
    begun &= _after_a_drift(values, early, onset_of_early).at < block.before.shape[1]
    rows = np.flatnonzero(begun)
    if not len(rows):
        return search
    # Search again only in those rows, with the baseline cut at their onset.
    again = _search(values[rows], block.pooled[rows], onset_of_early.at[rows], doubt[rows])
    return _Search(
        cut=_with_rows(search.cut, rows, again.cut),
        base=_with_baseline(search.base, rows, again.base),
        scale=_with_rows(search.scale, rows, again.scale),
        deviations=_with_rows(search.deviations, rows, again.deviations),
        departure=Departure(
            first=_with_rows(search.departure.first, rows, again.departure.first),
            last=_with_rows(search.departure.last, rows, again.departure.last),
            score=_with_rows(search.departure.score, rows, again.departure.score),
            up=_with_rows(search.departure.up, rows, again.departure.up),
        ),
        level=_with_rows(search.level, rows, again.level),
    )


def _began_earlier(
    values: Floats, border: Ints, early: _Search, middle: Ints, onset: OnsetInterval
) -> Bools:
    """In which rows what the window shows clearly began in the baseline's second half."""
    columns = _columns(values)
    is_clear = (early.base.points >= MIN_BEFORE) & (early.departure.first >= 0)
    is_clear &= early.sigmas >= CLEAR_SIGMAS
    begun = is_clear & (onset.at >= middle) & (border - onset.at >= SUSTAINED)

    # It still lasts when the window begins.
    in_window = np.isfinite(values) & (columns >= border[:, None])
    enough = np.minimum(SUSTAINED, in_window.sum(axis=1))
    begun &= early.departure.last >= in_window.argmax(axis=1) + enough - 1

    # It lasted from the onset on.
    between = np.isfinite(values) & (columns >= onset.at[:, None]) & (columns < border[:, None])
    side = np.sign(early.level - early.base.centre)
    beyond = between & (early.deviations * side[:, None] > DRIFT)
    lasted: Bools = beyond.sum(axis=1) >= MOSTLY * between.sum(axis=1)
    return lasted & begun


def _recent(block: Block) -> Floats:
    """The baseline without the windows of earlier days, where what is left suffices."""
    recent = np.where(block.before_times >= block.recent_ns, block.before, np.nan)
    enough = np.isfinite(recent).sum(axis=1) >= MIN_BASELINE_POINTS
    floats: Floats = np.where(enough[:, None], recent, block.before)
    return floats


def _with_baseline(old: Baseline, rows: Ints, new: Baseline) -> Baseline:
    return Baseline(
        centre=_with_rows(old.centre, rows, new.centre),
        scale=_with_rows(old.scale, rows, new.scale),
        points=_with_rows(old.points, rows, new.points),
    )


def _with_rows(old: Array, rows: Ints, new: Array) -> Array:
    out = old.copy()
    out[rows] = new
    return out


def _search(values: Floats, pooled: Floats, cut: Ints, doubt: Floats) -> _Search:
    in_baseline = _columns(values) < cut[:, None]
    after = np.where(in_baseline, np.nan, values)
    base = _without_incident(np.where(in_baseline, values, np.nan))
    move = np.nanmax(np.abs(after - base.centre[:, None]), axis=1)
    # A flat baseline has no scale: take the one that the signal has elsewhere.
    floor = FLAT_FLOOR * np.where(pooled > 0, pooled, move)
    scale = np.where(base.scale > 0, base.scale, floor)
    scale = np.hypot(np.where(scale > 0, scale, 1.0), doubt)
    deviations = (values - base.centre[:, None]) / scale[:, None]
    departure = find_departures(np.where(in_baseline, np.nan, deviations))
    level = row_medians(values, departure.first, departure.last)
    return _Search(cut, base, scale, deviations, departure, level)


def _without_incident(before: Floats) -> Baseline:
    """Centre and noise of the baseline; one earlier incident in it is neither."""
    base = describe(before)
    deviations = (before - base.centre[:, None]) / base.scale[:, None]
    earlier = find_departures(deviations)
    level = np.abs(row_medians(deviations, earlier.first, earlier.last))
    columns = _columns(before)
    inside = (columns >= earlier.first[:, None]) & (columns <= earlier.last[:, None])
    inside &= np.isfinite(before)
    points = inside.sum(axis=1)
    is_incident = (points >= SUSTAINED) & (points <= MOST_OF_BASELINE * base.points)
    rows = np.flatnonzero(is_incident & (level >= MIN_SIGMAS))
    if not len(rows):
        return base
    cleaned = describe(np.where(inside[rows], np.nan, before[rows]))
    return _with_baseline(base, rows, cleaned)


def _uncertainty(values: Floats, times: Ints, cut: Ints, onset: OnsetInterval) -> Floats:
    """Seconds from the onset to the point before the earliest it may be, or to the latest if that
    is farther.

    It happened after the last point that was still normal; a break before the window counts as two
    usual steps.
    """
    usable = np.isfinite(values)
    at = _at(times, np.maximum(onset.at, 0))
    latest = _at(times, np.maximum(onset.latest, 0))
    neighbours = usable[:, 1:] & usable[:, :-1]
    step = np.nanmedian(np.where(neighbours, np.diff(times, axis=1), np.nan), axis=1)
    earlier = usable & (_columns(values) < onset.earliest[:, None])
    previous = np.where(earlier.any(axis=1), _at(times, _last_true(earlier)), at)
    since = at - previous
    since = np.where(onset.earliest == cut, np.fmin(since, 2 * step), since)
    seconds: Floats = np.maximum(since, latest - at) / 1e9
    return seconds
