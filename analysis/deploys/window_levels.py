"""On which scale the windows of a signal are compared, which noise they have at least, and which
move matters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.deploys.judged_signals import JudgedSeries
from faultline.analysis.deploys.verdict import Group

Floats = NDArray[np.float64]

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
