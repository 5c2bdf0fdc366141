"""Is the window after a deploy worse than quiet windows of the same length?

The means of such windows are their own noise model: bursts, memory from point to point and tails
are in them, as they are in the window that is judged (batch means, Law and Carson 1979). The
window's mean is held against all of them, and its step from the windows just before against such
steps, so that neither an odd hour nor a slow drift is taken for a deploy. The larger chance
counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.deploys.student_t import quantile, upper_tail

Floats = NDArray[np.float64]

LEAST_WINDOWS = 5
"""Fewer windows give no usable noise: at 4 degrees of freedom p = .001 takes 7.2 sigmas."""
MOST_WINDOWS = 60
NEAR = 3
"""How many windows just before the deploy are the level that it is a step from."""
HALF_FILLED = 0.5
"""A window with less than this share of its usual points is left out."""


@dataclass(frozen=True)
class QuietTest:
    """The result; levels on the scale of the values that were given."""

    p: float
    centre: float
    level: float
    windows: int
    detectable: float
    """The level whose chance is just `needed`."""


def window_means(times: Floats, values: Floats, start: float, end: float) -> tuple[Floats, float]:
    """Means of the windows before `start` that are as long as the one from `start` to `end`, the
    oldest first, and that window's own; NaN where too little was recorded."""
    length = end - start
    usable = np.isfinite(values)
    times, values = times[usable], values[usable]
    if not len(times) or length <= 0:
        return np.array([]), math.nan
    numbers = np.floor((times - start) / length).astype(np.int64)
    # The end of the judged window belongs to it.
    numbers[(times >= start) & (times <= end)] = 0
    oldest = -min(MOST_WINDOWS, max(0, int((start - times[0]) // length)))
    mask = (numbers >= oldest) & (numbers <= 0)
    places = numbers[mask] - oldest
    counts = np.bincount(places, minlength=1 - oldest).astype(np.float64)
    sums = np.bincount(places, values[mask], minlength=1 - oldest)
    usual = float(np.median(counts[:-1])) if len(counts) > 1 else counts[-1]
    filled = counts >= max(1.0, HALF_FILLED * usual)
    means = np.where(filled, sums / np.maximum(counts, 1), np.nan)
    return means[:-1], float(means[-1])


def quiet_test(before: Floats, level: float, floor: float, needed: float) -> QuietTest | None:
    """Whether `level` lies above what windows `before` show; None where they are too few. `floor`
    is the least noise that a window's mean has."""
    means = before[np.isfinite(before)]
    if len(means) < LEAST_WINDOWS or not math.isfinite(level):
        return None
    centre, degrees = float(means.mean()), len(means) - 1
    # The judged window is one more draw beside those that the mean comes from.
    noise = max(float(means.std(ddof=1)), floor) * math.sqrt(1 + 1 / len(means))
    p = upper_tail((level - centre) / noise, degrees)
    detectable = centre + quantile(needed, degrees) * noise
    steps = _steps(means)
    if len(steps) >= LEAST_WINDOWS:
        near, degrees = float(means[-NEAR:].mean()), len(steps) - 1
        step_noise = max(math.sqrt(float((steps**2).mean())), floor)
        p = max(p, upper_tail((level - near) / step_noise, degrees))
        detectable = max(detectable, near + quantile(needed, degrees) * step_noise)
    return QuietTest(p, centre, level, len(means), detectable)


def _steps(means: Floats) -> Floats:
    """Each window's step from the mean of the `NEAR` before it."""
    if len(means) <= NEAR:
        return np.array([])
    # The last window's mean has no window after it.
    near = np.convolve(means, np.ones(NEAR) / NEAR, "valid")[:-1]
    return means[NEAR:] - near
