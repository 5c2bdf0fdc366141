"""When something began to climb that broke only later: memory that leaks, a disk that fills, a
queue that grows.

A change acts when the climb begins, not when the limit is reached, so the nearness of a change is
measured from there. A climb is a flat part and then a straight one (a hinge, as in Muggeo 2003,
"Estimating regression models with unknown break-points"), where that fits clearly better than a
step. What climbs from its first point on began before the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
from numpy.typing import NDArray

from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.signals import SignalClass, classify, is_headroom
from faultline.analysis.suspects.suspect import Suspect

Floats = NDArray[np.float64]

CLIMBERS = {
    SignalClass.MEMORY: frozenset({"memory"}),
    SignalClass.DISK: frozenset({"disk"}),
    SignalClass.QUEUE: frozenset({"backlog", "connections", "load"}),
}
"""Classes that run full, and the effects that tell of it: a climb counts only where one of them is
seen."""
MIN_POINTS = 12
MIN_CLIMB_POINTS = 5
MAX_POINTS = 400
"""A longer series is thinned to this many points."""
MAX_SERIES = 40
GROWTH = 0.3
"""A climb of less than 30 % of the level is the day's own."""
CLEAR_FIT = 0.9
"""Share of the variance that the hinge must explain."""
BETTER_THAN_STEP = 0.5
"""And at most half of the error that a step leaves."""
LEAVES_NOTHING_FLAT = 0.08
"""A hinge in the first twelfth of the series has no flat part: it climbed all along."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Climb:
    """A series of the first suspect that climbed until it broke; `start` is within
    `uncertainty`."""

    subject: str
    signal: str
    start: datetime
    uncertainty: timedelta
    from_the_beginning: bool
    """It climbed in all of what is known, so it began before."""


def climb_of(case: Case, suspects: Sequence[Suspect], effects: frozenset[str]) -> Climb | None:
    """The earliest climb of the first suspect's memory, disk or queues that its symptoms tell
    of."""
    if not suspects or not case.metrics.height:
        return None
    first = suspects[0]
    end = max(first.onset or case.alert.started_at, case.alert.started_at)
    rows = case.metrics.filter((pl.col("service") == first.subject) & (pl.col("time") <= end))
    rows = rows.filter(pl.col("value").is_finite())
    names = [
        s
        for s in sorted(rows["signal"].unique().to_list())
        if CLIMBERS.get(classify(s), frozenset()) & effects
    ]
    climbs = []
    for name in names[:MAX_SERIES]:
        series = (
            rows.filter(pl.col("signal") == name)
            .group_by("time")
            .agg(pl.col("value").mean())
            .sort("time")
        )
        climb = _climb(first.subject, name, series)
        if climb is not None:
            climbs.append(climb)
    return min(climbs, key=lambda c: (c.start, c.signal), default=None)


def _climb(subject: str, signal: str, series: pl.DataFrame) -> Climb | None:
    times = series["time"].dt.epoch("ns").to_numpy().astype(np.float64) / 1e9
    values = series["value"].to_numpy().astype(np.float64)
    # Headroom falls while the resource fills: turn it round.
    if is_headroom(signal):
        values = -values
    every = max(1, -(-len(values) // MAX_POINTS))
    times, values = times[::every], values[::every]
    # Where it first reaches its highest level: what comes after, a restart or a full disk, is no
    # climb any more.
    low, high = float(np.min(values)), float(np.max(values))
    top = int(np.argmax(values >= low + 0.98 * (high - low)))
    times, values = times[: top + 1], values[: top + 1]
    if len(values) < MIN_POINTS or not np.isfinite(values).all():
        return None
    at = _hinge(times, values)
    if at is None:
        return None
    flat = float(np.median(values[: max(1, at)]))
    if (
        values[-1] - flat < GROWTH * max(abs(flat), abs(float(values[-1])), 1e-12)
        or len(values) - at < MIN_CLIMB_POINTS
    ):
        return None
    step = float(np.median(np.diff(times)))
    return Climb(
        subject,
        signal,
        _EPOCH + timedelta(seconds=float(times[at])),
        timedelta(seconds=max(2 * step, 0.05 * (times[-1] - times[at]))),
        at <= LEAVES_NOTHING_FLAT * len(values),
    )


def _hinge(times: Floats, values: Floats) -> int | None:
    """Where flat turns into a straight climb; None where a step or noise tells it better; O(points
    squared)."""
    t = (times - times[0]) / max(times[-1] - times[0], 1e-9)
    total = float(((values - values.mean()) ** 2).sum())
    if total <= 0:
        return None
    # A hinge at one of the last three points would fit noise.
    ramps = np.maximum(t[None, :] - t[:, None], 0.0)[:-3]
    centred = ramps - ramps.mean(axis=1, keepdims=True)
    spread = np.maximum((centred**2).sum(axis=1), 1e-12)
    slope = centred @ (values - values.mean()) / spread
    left = total - slope**2 * spread
    at = int(np.argmin(left))
    if (
        # Only a rise fills something up.
        slope[at] <= 0
        or left[at] > (1 - CLEAR_FIT) * total
        or left[at] > BETTER_THAN_STEP * _step_error(values)
    ):
        return None
    return at


def _step_error(values: Floats) -> float:
    """Squared error that the best single step leaves."""
    n = np.arange(1, len(values))
    sums, squares = np.cumsum(values)[:-1], float((values**2).sum())
    rest = float(values.sum()) - sums
    return float((squares - sums**2 / n - rest**2 / (len(values) - n)).min())
