"""Robust statistics of many short series at once: centre, scale, and the segment that left the
baseline.

Rows of a matrix are series, columns are points in time order, NaN is "no point". Everything is
O(points log points). Centre and scale are median and MAD (x 1.4826, Leys et al. 2013). The
departure is the largest excursion of a one-sided CUSUM (Page 1954) of clipped deviations, upward
and downward.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MAD_TO_SIGMA = 1.4826
RELATIVE_FLOOR = 0.02
"""A series is taken to be noisy by at least 2 % of its centre: counters and rounded values have a
MAD of zero."""
RANGE_FLOOR = 0.25
"""And by a quarter of its 5-95 % range, so that a bursty baseline widens the scale of a mostly flat
one."""
DRIFT = 2.0
"""Deviations below this many sigmas do not count toward a departure."""
CLIP = 12.0
"""One wild point counts at most this many sigmas, so that a spike cannot outweigh a sustained
move."""


@dataclass(frozen=True)
class Baseline:
    """Centre and scale of each row, and how many points they rest on."""

    centre: Floats
    scale: Floats
    points: Ints


@dataclass(frozen=True)
class Departure:
    """For each row the column where its largest excursion begins and ends (inclusive), -1 where
    there is none."""

    first: Ints
    last: Ints
    score: Floats
    up: Bools


def describe(values: Floats) -> Baseline:
    """Centre and scale of each row's finite points; NaN where a row has none."""
    ordered = np.sort(values, axis=1)
    points = np.isfinite(values).sum(axis=1)
    centre = _quantile(ordered, points, 0.5)
    deviations = np.sort(np.abs(values - centre[:, None]), axis=1)
    mad = MAD_TO_SIGMA * _quantile(deviations, points, 0.5)
    spread = _quantile(ordered, points, 0.95) - _quantile(ordered, points, 0.05)
    scale = np.fmax(np.fmax(mad, RANGE_FLOOR * spread), RELATIVE_FLOOR * np.abs(centre))
    # Few points underestimate the spread: widen it by how few they are.
    return Baseline(centre, scale * (1.0 + 2.0 / np.maximum(points, 1)), points)


def find_departures(deviations: Floats) -> Departure:
    """The largest sustained excursion of each row of deviations (in sigmas; NaN is skipped)."""
    usable = np.isfinite(deviations)
    clipped = np.where(usable, np.clip(deviations, -CLIP, CLIP), 0.0)
    # A missing point adds nothing: less the drift, it would pull the sum down.
    up = _excursion(np.where(usable, clipped - DRIFT, 0.0))
    down = _excursion(np.where(usable, -clipped - DRIFT, 0.0))
    rises = up.score >= down.score
    return Departure(
        np.where(rises, up.first, down.first),
        np.where(rises, up.last, down.last),
        np.where(rises, up.score, down.score),
        rises,
    )


def row_medians(values: Floats, first: Ints, last: Ints) -> Floats:
    """Median of each row's finite points in columns first..last; NaN where there is none."""
    columns = np.arange(values.shape[1])[None, :]
    inside = (columns >= first[:, None]) & (columns <= last[:, None])
    window_values = np.where(inside, values, np.nan)
    return _quantile(np.sort(window_values, axis=1), np.isfinite(window_values).sum(axis=1), 0.5)


def _excursion(steps: Floats) -> Departure:
    rows, columns = steps.shape
    sums = np.concatenate([np.zeros((rows, 1)), np.cumsum(steps, axis=1)], axis=1)
    lowest = np.minimum.accumulate(sums, axis=1)
    heights = (sums - lowest)[:, 1:]
    last = heights.argmax(axis=1)
    score = heights[np.arange(rows), last]
    # Of equally low places the last counts: there the excursion begins.
    at_lowest = np.where(sums == lowest, np.arange(columns + 1)[None, :], 0)
    first = np.maximum.accumulate(at_lowest, axis=1)[np.arange(rows), last]
    none = score <= 0
    return Departure(
        np.where(none, -1, first), np.where(none, -1, last), np.where(none, 0.0, score), ~none
    )


def _quantile(ordered: Floats, points: Ints, share: float) -> Floats:
    """Linear-interpolated quantile of rows sorted with NaN last."""
    if ordered.shape[1] == 0:
        return np.full(ordered.shape[0], np.nan)
    position = np.maximum(points - 1, 0) * share
    below = np.floor(position).astype(np.int64)
    above = np.minimum(below + 1, np.maximum(points - 1, 0))
    rows = np.arange(ordered.shape[0])
    low, high = ordered[rows, below], ordered[rows, above]
    return np.where(points > 0, low + (high - low) * (position - below), np.nan)


# When did it begin: the onset of a departure, its likelihood interval, and onsets that lie inside
# the baseline.
#
# Rows are series, columns points in time order. For a departure of known size the likeliest onset
# is where Page's cumulative sum of the log-likelihood ratio "normal, then stepped" is largest (Page
# 1954; Hinkley 1970); the onsets whose log-likelihood is within 1.92 of it are the 95 % interval
# (Wilks 1938).

WITHIN = 1.92
"""Half the 95 % quantile of chi-squared with one degree of freedom."""
STEP = 2 * DRIFT
"""A larger step is looked for as one of 4 sigmas: what grows has begun when its first points leave
the noise."""
LEAST_OF_STEP = 0.2
"""But of no less than a fifth of the move: a few failing requests before an outage are not its
onset."""
SLIGHT = 2.0
"""It may have begun where a step of 2 sigmas would have."""


@dataclass(frozen=True)
class OnsetInterval:
    """For each row the likeliest first departed column, and the first and last columns it may as
    well be."""

    at: Ints
    earliest: Ints
    latest: Ints


def likeliest_onset(deviations: Floats, size: Floats, lowest: Ints, last: Ints) -> OnsetInterval:
    """The onset of a step of `size` sigmas that lasts until column `last`, not before column
    `lowest`.

    `deviations` are in sigmas, NaN is skipped. Columns are -1 in rows without a departure (`last` <
    0).
    """
    columns = np.arange(deviations.shape[1])[None, :]
    allowed = np.isfinite(deviations) & (columns >= lowest[:, None]) & (columns <= last[:, None])
    step = np.sign(size) * np.minimum(np.abs(size), np.maximum(STEP, LEAST_OF_STEP * np.abs(size)))
    limit = np.maximum(CLIP, 1.5 * np.abs(step))[:, None]
    at, near = _likeliest(np.clip(deviations, -limit, limit), step, allowed)
    clipped = np.clip(deviations, -CLIP, CLIP)
    slight, _ = _likeliest(clipped, np.clip(size, -SLIGHT, SLIGHT), allowed)
    earliest = np.minimum(near.argmax(axis=1), slight)
    latest = deviations.shape[1] - 1 - near[:, ::-1].argmax(axis=1)
    none = ~allowed.any(axis=1)
    return OnsetInterval(
        np.where(none, -1, at), np.where(none, -1, earliest), np.where(none, -1, latest)
    )


def _likeliest(deviations: Floats, step: Floats, allowed: Bools) -> tuple[Ints, Bools]:
    """The column in which a step of that many sigmas most likely began, and all that are nearly as
    likely."""
    gain = np.where(allowed, step[:, None] * deviations - step[:, None] ** 2 / 2, 0.0)
    # Summed from the right: each column holds the gain of a step from there to the end.
    likelihood = np.where(allowed, np.cumsum(gain[:, ::-1], axis=1)[:, ::-1], -np.inf)
    at = likelihood.argmax(axis=1)
    highest = np.take_along_axis(likelihood, at[:, None], axis=1)
    return at, likelihood >= highest - WITHIN


# Is it coincidence? The same departure test over windows of the same length in which nothing was
# wrong.
#
# A baseline is cut into all its windows of the incident's length. A departure that is as large in
# many of them is what the series always does: bursts, heavy tails, a batch job. The share of such
# windows is an empirical p-value (Davison and Hinkley 1997, ch. 4), free of any assumption about
# the noise.

HALF_AS_LARGE = 0.5
"""A quiet window with a departure half as large speaks half as much: the largest of few windows is
no bound."""


def quiet_share(
    deviations: Floats, width: int, score: Floats, up: Bools, forgiven: Bools
) -> Floats:
    """For each row the share of its windows of `width` columns with a departure as large as
    `score`, that way.

    `deviations` is the baseline in sigmas, NaN where there is no point; windows half as bad count
    half.
    """
    signed = np.where(up[:, None], deviations, -deviations)
    steps = np.where(np.isfinite(signed), np.clip(signed, -CLIP, CLIP) - DRIFT, 0.0)
    width = min(width, steps.shape[1])
    # The largest excursion that ends within each window of `width` columns, by the window's last
    # column. It begins at most a window before its end, so that a window in the wake of a burst may
    # count it once more.
    sums = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
    heights = (sums + _sliding_max(-sums, width + 1))[:, 1:]
    largest = _sliding_max(heights, width)[:, width - 1 :]
    # Mark by their last column the windows in which at least half of the steps have a point.
    usable = np.isfinite(deviations)
    counts = np.cumsum(
        np.concatenate([np.zeros((len(usable), 1), dtype=np.int64), usable], axis=1), axis=1
    )
    filled_windows: Bools = counts[:, width:] - counts[:, :-width] >= max(1, width // 2)
    whole = _flagged(filled_windows & (largest >= score[:, None]), forgiven)
    half = _flagged(filled_windows & (largest >= HALF_AS_LARGE * score[:, None]), forgiven)
    share: Floats = (whole + half) / 2 / np.maximum(filled_windows.sum(axis=1), 1)
    return share


def _flagged(flagged: Bools, forgiven: Bools) -> Ints:
    """How many windows are flagged in each row, without the longest run of them where one episode
    is forgiven."""
    counts: Ints = np.cumsum(flagged, axis=1)
    runs: Ints = counts - np.maximum.accumulate(np.where(flagged, 0, counts), axis=1)
    left: Ints = counts[:, -1] - np.where(forgiven, runs.max(axis=1), 0)
    return left


def _sliding_max(values: Floats, width: int) -> Floats:
    """Maximum of each column and the `width` - 1 before it, by doubling: O(columns log width)."""
    out, covered = values, 1
    while covered < width:
        by = min(covered, width - covered)
        shifted = np.concatenate([np.full((len(out), by), -np.inf), out[:, :-by]], axis=1)
        out, covered = np.maximum(out, shifted), covered + by
    return out
