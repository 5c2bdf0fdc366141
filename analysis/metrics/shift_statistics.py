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
