"""The slow curve under a series: what a day does to it, which no step may be mistaken for.

Requests, CPU use and latency follow the hour. Two hours of a day are nearly a straight line, or a
parabola around noon and night, so that is what the baseline is fitted with; what it would have gone
on to is taken out of the window.
"""

from __future__ import annotations

import numpy as np

from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.metrics.shift_statistics import (
    MAD_TO_SIGMA,
    Bools,
    Floats,
    Ints,
)

FOLLOW_THE_DAY = frozenset(
    {SignalClass.TRAFFIC, SignalClass.CPU, SignalClass.LATENCY, SignalClass.NETWORK}
)
"""What fills up (memory, disks, queues, connections) or fails more and more is no curve of the
day."""
LEAST_POINTS = 12
BLOCKS = 8
MOST_LEFT = 1.5
"""What is left of the baseline beside its curve is at most this many times the noise within an
eighth of it. More is a step or a burst, which no curve explains."""
SIGNIFICANT = 3.0
"""Standard errors from which a slope or a bend is more than chance."""
STEEPEST = 0.5
"""Of the level in an hour. A sine of a day that swings by 60 % moves by a fifth."""
FARTHEST = 0.5
"""A curve is believed for half as long as it was seen; from there on it is level."""
CLIP_SIGMAS = 4.0
"""Points farther from the curve pull it no more than this."""
HOUR_NS = 3_600_000_000_000


def slow_curves(values: Floats, times: Ints, border: int, eligible: Bools) -> tuple[Floats, Floats]:
    """How far each point of each row is moved by its slow curve, 0 where the window begins; and by
    how much that may be wrong at the end of the window.

    Rows are series, columns points in time order (NaN is no point), `border` the first column of
    the window. Rows without a curve are 0.
    """
    curve, doubt = np.zeros_like(values), np.zeros(len(values))
    finite = np.isfinite(values)
    before = finite[:, :border].sum(axis=1)
    rows = np.flatnonzero(eligible & (before >= LEAST_POINTS) & finite[:, border:].any(axis=1))
    if not len(rows):
        return curve, doubt
    values, times, finite = values[rows], times[rows], finite[rows]
    began = np.where(finite[:, border:], times[:, border:], np.iinfo(np.int64).max).min(axis=1)
    hours = np.where(finite, (times - began[:, None]) / HOUR_NS, 0.0)
    hours = np.minimum(hours, -FARTHEST * hours.min(axis=1, keepdims=True))
    fit = _Fit(values, hours, finite, border)
    bent, bent_doubt, bent_significant = fit.of_degree(2)
    straight, straight_doubt, straight_significant = fit.of_degree(1)
    taken = np.where(bent_significant[:, None], bent, straight)
    accepted = bent_significant | straight_significant
    accepted &= fit.is_explained_by(taken) & fit.is_gentle(taken)
    curve[rows] = np.where(finite & accepted[:, None], taken, 0.0)
    doubt[rows] = np.where(accepted, np.where(bent_significant, bent_doubt, straight_doubt), 0.0)
    return curve, doubt


class _Fit:
    """Polynomials through the baselines of many rows."""

    def __init__(self, values: Floats, hours: Floats, finite: Bools, border: int) -> None:
        self.values, self.hours = np.where(finite, values, 0.0), hours
        self.inside = finite & (np.arange(values.shape[1]) < border)[None, :]
        self.points = self.inside.sum(axis=1)
        self.noise = self.noise_within()

    def of_degree(self, degree: int) -> tuple[Floats, Floats, Bools]:
        """The curve relative to the window's beginning, its standard error at the window's end, and
        whether its highest power is more than chance."""
        powers = np.stack([self.hours**power for power in range(degree + 1)], axis=2)
        weighted = powers * self.inside[:, :, None]
        # A ridge next to nothing: rows whose points are all at one time have no inverse.
        normal = np.einsum("rcp,rcq->rpq", weighted, powers) + 1e-12 * np.eye(degree + 1)
        inverse = np.linalg.inv(normal)
        values = self.values
        for _ in range(3):
            right = np.einsum("rcp,rc->rp", weighted, values)
            factors = np.einsum("rpq,rq->rp", inverse, right)
            fitted = np.einsum("rcp,rp->rc", powers, factors)
            away = np.where(self.inside, self.values - fitted, 0.0)
            limit = CLIP_SIGMAS * self.noise[:, None]
            values = fitted + np.clip(away, -limit, limit)
        # Points that resemble their neighbours count for fewer.
        away = np.where(self.inside, away, 0.0)
        alike = (away[:, 1:] * away[:, :-1]).sum(axis=1) / np.maximum((away**2).sum(axis=1), 1e-300)
        alike = np.clip(alike, 0.0, 0.95)
        spread = np.sqrt((away**2).sum(axis=1) / np.maximum(self.points - degree - 1, 1))
        error = spread * np.sqrt((1 + alike) / (1 - alike))
        last = powers[np.arange(len(powers)), self.hours.argmax(axis=1)]
        doubt = error * np.sqrt(np.einsum("rp,rpq,rq->r", last, inverse, last))
        smallest = np.maximum(error * np.sqrt(inverse[:, degree, degree]), 1e-300)
        significant = np.abs(factors[:, degree]) > SIGNIFICANT * smallest
        return fitted - factors[:, :1], doubt, significant

    def is_explained_by(self, curve: Floats) -> Bools:
        """Whether the noise is all that the curve leaves of the baseline."""
        left = np.where(self.inside, self.values - curve, np.nan)
        middle = np.nanmedian(left, axis=1)
        spread = MAD_TO_SIGMA * np.nanmedian(np.abs(left - middle[:, None]), axis=1)
        explained: Bools = spread <= MOST_LEFT * self.noise
        return explained

    def is_gentle(self, curve: Floats) -> Bools:
        """Whether it moves as slowly as a day does."""
        usual = np.abs(np.nanmedian(np.where(self.inside, self.values, np.nan), axis=1))
        span = np.ptp(self.hours, axis=1)
        gentle: Bools = np.ptp(curve, axis=1) <= STEEPEST * usual * np.maximum(span, 1e-9)
        return gentle

    def noise_within(self) -> Floats:
        """The spread of the points within an eighth of the baseline: no slow curve adds to it."""
        # Which eighth of its row's baseline points each column is.
        rank = np.cumsum(self.inside, axis=1) - 1
        eighth = rank * BLOCKS // np.maximum(self.points, 1)[:, None]
        variances = []
        for number in range(BLOCKS):
            block = self.inside & (eighth == number)
            count = np.maximum(block.sum(axis=1), 1)
            mean = (self.values * block).sum(axis=1) / count
            squares = ((self.values - mean[:, None]) ** 2 * block).sum(axis=1)
            variances.append(squares / np.maximum(count - 1, 1))
        noise: Floats = np.sqrt(np.median(np.stack(variances), axis=0))
        return noise
