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

from faultline.analysis.deploys.judged_signals import JudgedSeries
from faultline.analysis.deploys.verdict import Group

# The tail of Student's t, for whole degrees of freedom.


def upper_tail(t: float, degrees: int) -> float:
    """Chance of a value above `t`. The finite series of Abramowitz and Stegun, 26.7.3 and
    26.7.4."""
    if not math.isfinite(t):
        return 0.0 if t > 0 else 1.0
    angle = math.atan(abs(t) / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    if degrees % 2:
        term, total = cosine, cosine if degrees > 1 else 0.0
        for n in range(2, degrees - 1, 2):
            term *= cosine * cosine * n / (n + 1)
            total += term
        between = 2 / math.pi * (angle + sine * total)
    else:
        term, total = 1.0, 1.0
        for n in range(1, degrees - 2, 2):
            term *= cosine * cosine * n / (n + 1)
            total += term
        between = sine * total
    tail = max(0.0, (1.0 - between) / 2)
    return tail if t >= 0 else 1.0 - tail


def quantile(p: float, degrees: int) -> float:
    """The `t` that is exceeded with chance `p` of at most a half."""
    low, high = 0.0, 1.0
    while upper_tail(high, degrees) > p and high < 1e9:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if upper_tail(middle, degrees) > p:
            low = middle
        else:
            high = middle
    return high


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


# On which scale the windows of a signal are compared, which noise they have at least, and which
# move matters.


MATTERS = {
    Group.LATENCY: 1.2,
    Group.ERRORS: 1.5,
    Group.THROUGHPUT: 1.4,
    Group.SATURATION: 1.3,
    Group.RESTARTS: 1.5,
    Group.LOGS: 1.5,
}
"""A certain move of less is not worth a rollback: latency up by a fifth, errors by a half, traffic
down to 70 %, load up by three tenths."""
LEAST_SHARE = 0.002
"""And of errors it must be a fifth of a percent of all requests,"""
LEAST_EVENTS = 2.0
"""or two events more than usual, where they are only counted."""
LEAST_NOISE = {Group.LATENCY: 0.02, Group.THROUGHPUT: 0.05, Group.SATURATION: 0.05}
"""Relative noise of a window's mean, also where the windows before are alike: rounded values."""
SHARE_NOISE = 0.01
"""The same of the root of a share whose requests are not counted: of 2,500 requests."""
SMALLEST = 1e-9
LEAST_POINTS = 3
"""Fewer points give no level."""


@dataclass(frozen=True)
class WindowScale:
    """The scale for windows of `seconds` of one series. Levels on it rise when it gets worse."""

    series: JudgedSeries
    seconds: float
    requests: float | None
    """In the judged window, where known."""

    @property
    def counts(self) -> bool:
        """Whether it counts events or is their share, so that its noise is that of counts."""
        return self.series.group in (Group.ERRORS, Group.RESTARTS, Group.LOGS)

    def points(self) -> Floats:
        """The points as they are averaged."""
        if self.counts:
            return self.series.values
        # Zero has no logarithm: take a hundredth of the usual level.
        smallest = max(SMALLEST, 0.01 * float(np.nanmedian(np.abs(self.series.values))))
        # Latency and load vary by factors, so they are compared as logarithms.
        logs: Floats = np.log(np.maximum(self.series.values, smallest))
        return -logs if self.series.falls else logs

    def levels(self, means: Floats) -> Floats:
        """Means of points on the scale: of counts the root, whose noise is the same at every
        level."""
        return np.sqrt(np.maximum(means, 0.0)) if self.counts else means

    def shown(self, level: float) -> float:
        """A level as the signal's own value."""
        if self.counts:
            return max(0.0, level) ** 2
        # Beyond 700 the exponential overflows.
        return math.exp(min(700.0, -level if self.series.falls else level))

    def level_between(self, start: float, end: float) -> float:
        """The level of that time; NaN where fewer than `LEAST_POINTS` points are known."""
        inside = (self.series.times >= start) & (self.series.times <= end)
        points = self.points()[inside]
        points = points[np.isfinite(points)]
        if len(points) < LEAST_POINTS:
            return math.nan
        return float(self.levels(np.array([points.mean()]))[0])

    def is_over(self, usual: float, level: float, lately: float) -> bool:
        """Whether the level has come back lately: by more than half, to where it does not matter.
        What is not known is not over, and restarts never are: a crash loop waits up to five minutes
        between two of them."""
        if self.series.group is Group.RESTARTS or not math.isfinite(lately):
            return False
        came_back = lately - usual < (level - usual) / 2
        return came_back and not self.matters(self.shown(usual), self.shown(lately))

    @property
    def floor(self) -> float:
        """The least noise of a window's level."""
        if not self.counts:
            return LEAST_NOISE[self.series.group]
        if self.series.is_share:
            # The root of a count has a standard deviation of one half, whatever the count is.
            return 0.5 / math.sqrt(self.requests) if self.requests else SHARE_NOISE
        if self.series.per_second:
            return 0.5 / math.sqrt(self.seconds)
        interval = self.series.interval_s
        points = self.seconds / interval if interval > 0 else 1.0
        return 0.5 / math.sqrt(max(1.0, points))

    def matters(self, before: float, after: float) -> bool:
        """Whether the move between two shown levels is large enough."""
        least = MATTERS[self.series.group]
        if self.series.falls:
            return after * least <= before
        if after < least * before:
            return False
        if self.series.is_share:
            return after - before >= LEAST_SHARE
        if self.counts:
            per = self.seconds if self.series.per_second else self.seconds / self.series.interval_s
            return (after - before) * per >= LEAST_EVENTS
        return after > before
