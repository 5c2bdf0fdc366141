"""Does this happen at this hour on other days as well: a nightly batch job, a morning's load.

The searched window is laid over the same hours of each earlier day that the baseline holds. A day
is alike when as many of its points as departed now lie at least half as far out, that way, from the
baseline or from the two hours before them on that day.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline.analysis.metrics.shift_statistics import Bools, Floats, Ints, row_medians

DAY_NS = 86_400_000_000_000
MOST_DAYS = 14
BEFORE_NS = 7_200_000_000_000
"""A day's own level is that of the two hours before."""
MIN_BEFORE = 3
ENOUGH = 0.5
"""A day counts when it has at least half as many points as the searched window."""
ALIKE = 0.5


@dataclass(frozen=True)
class Days:
    """For each row how many earlier days have points at this hour, and on how many of them it was
    alike."""

    total: Ints
    alike: Ints

    @property
    def chance(self) -> Floats:
        """How likely it is to happen without an incident, by what the days show; none known, none
        alike: 0."""
        share: Floats = self.alike / (self.total + 1)
        return share


def same_hours(
    times: Ints,
    deviations: Floats,
    window: tuple[Ints, Ints],
    size: Floats,
    departed: Ints,
    searched: Ints,
) -> Days:
    """Compare a departure of `size` sigmas with the same hours of the days before.

    `times` (ns) and `deviations` (sigmas, NaN for no point) are the baseline's, `window` the first
    and last time that was searched (ns, per row), `departed` and `searched` count points.
    """
    total, alike = np.zeros((2, len(times)), dtype=np.int64)
    usable = np.isfinite(deviations)
    signed = np.where(size[:, None] >= 0, deviations, -deviations)
    for day in range(1, MOST_DAYS + 1):
        start, end = window[0] - day * DAY_NS, window[1] - day * DAY_NS
        columns = _columns(times, usable, start - BEFORE_NS, end)
        if columns is None:
            continue
        at, values = times[:, columns], np.where(usable[:, columns], signed[:, columns], np.nan)
        inside = np.where((at >= start[:, None]) & (at <= end[:, None]), values, np.nan)
        before = np.where(
            (at >= start[:, None] - BEFORE_NS) & (at < start[:, None]), values, np.nan
        )
        enough = np.isfinite(inside).sum(axis=1) >= np.maximum(1, ENOUGH * searched)
        total += enough
        # The median of the `departed` points farthest out, from the baseline's centre or from that
        # day's own level.
        farthest = -np.sort(-inside, axis=1)
        counts = np.minimum(departed, np.isfinite(inside).sum(axis=1))
        level = row_medians(farthest, np.zeros(len(inside), dtype=np.int64), counts - 1)
        day_level = row_medians(
            before, np.zeros(len(before), dtype=np.int64), np.full(len(before), before.shape[1])
        )
        day_level = np.where(np.isfinite(before).sum(axis=1) >= MIN_BEFORE, day_level, 0.0)
        move: Floats = np.nan_to_num(np.maximum(level, level - day_level), nan=-np.inf)
        alike += enough & (move >= ALIKE * np.abs(size))
    return Days(total, alike)


def _columns(times: Ints, usable: Bools, start: Ints, end: Ints) -> slice | None:
    mask = usable & (times >= start[:, None]) & (times <= end[:, None])
    columns = np.flatnonzero(mask.any(axis=0))
    return slice(int(columns[0]), int(columns[-1]) + 1) if len(columns) else None
