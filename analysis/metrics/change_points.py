"""When did it begin: the onset of a departure, its likelihood interval, and onsets that lie inside
the baseline.

Rows are series, columns points in time order. For a departure of known size the likeliest onset is
where Page's cumulative sum of the log-likelihood ratio "normal, then stepped" is largest (Page
1954; Hinkley 1970); the onsets whose log-likelihood is within 1.92 of it are the 95 % interval
(Wilks 1938).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline.analysis.metrics.shift_statistics import CLIP, DRIFT, Bools, Floats, Ints

WITHIN = 1.92
"""Half the 95 % quantile of chi-squared with one degree of freedom."""
STEP = 2 * DRIFT
"""A larger step is looked for as one of 4 sigmas: what grows has begun when its first points leave
the noise."""
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
    clipped = np.clip(deviations, -CLIP, CLIP)
    at, near = _likeliest(clipped, np.clip(size, -STEP, STEP), allowed)
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
