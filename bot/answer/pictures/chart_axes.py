"""The axes of a chart: from values and times to pixels, and the figures beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from faultline.analysis.wording.amounts import amount
from faultline.bot.answer.pictures.chart_data import ChartPanel

TIME_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10800, 21600, 43200, 86400),
)
NICE = (1.0, 2.0, 2.5, 5.0, 10.0)
LOG_STEPS = ((1,), (1, 3), (1, 2, 5))
"""On a log scale powers of ten, with figures between them where these are too few."""
MOST_TICKS = 4
FROM_ZERO = 0.6
"""An axis begins at zero unless all values are within this share of the highest one."""


@dataclass(frozen=True)
class ValueAxis:
    """The vertical axis of one panel: `low` at its bottom, `high` at its top."""

    low: float
    high: float
    log: bool
    ticks: tuple[tuple[float, str], ...]

    def share(self, value: float) -> float:
        """How far up the value is, from 0 to 1."""
        if self.log:
            value = max(value, self.low)
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, share))


def value_axis(panel: ChartPanel) -> ValueAxis:
    """An axis on which all values of the panel are seen."""
    shown = [*panel.values, *(panel.usual or ())]
    if panel.threshold is not None:
        shown.append(panel.threshold)
    if panel.log:
        return _log_axis(panel, min(value for value in shown if value > 0), max(shown))
    low, high = min(shown), max(shown)
    # Values a little below zero still fit an axis that begins at zero.
    if panel.counted or -0.02 * high <= low < FROM_ZERO * high or low == high == 0:
        low = 0.0
    if high <= low:
        # A level that never moves stands at its height above zero.
        low, high = min(0.0, low), max(0.0, high)
    if high <= low:
        high = low + 1
    step = nice_step((high - low) / (MOST_TICKS - 1))
    if panel.counted:
        step = max(1.0, step)
    # Rounding must not lose a step.
    bottom = math.floor(low / step + 1e-9) * step
    top = max(high + 0.04 * (high - low), bottom + step)
    count = int((top - bottom) / step + 1e-9)
    ticks = [bottom + n * step for n in range(count + 1)]
    return ValueAxis(bottom, top, False, _labelled(panel, ticks))


def _log_axis(panel: ChartPanel, low: float, high: float) -> ValueAxis:
    # In the unit that people read: a power of ten of seconds is none of microseconds.
    factor = panel.unit.factor
    least, most = low * 0.8 * factor, high * 1.25 * factor
    ticks: list[float] = []
    for steps in LOG_STEPS:
        ticks = [value / factor for value in _log_values(least, most, steps)]
        if len(ticks) >= 2:
            break
    # Round up, so that at most MOST_TICKS stay.
    every = -(-len(ticks) // MOST_TICKS) or 1
    ticks = ticks[::every]
    return ValueAxis(low * 0.8, high * 1.25, True, _labelled(panel, ticks))


def _log_values(least: float, most: float, steps: tuple[int, ...]) -> Iterator[float]:
    """These multiples of powers of ten between the two."""
    for power in range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1):
        for step in steps:
            value = float(f"{step}e{power}")
            if least <= value <= most:
                yield value


def nice_step(least: float) -> float:
    """The next round number that is not less."""
    power = 10.0 ** math.floor(math.log10(least))
    for nice in NICE:
        # Rounding must not skip a number that fits.
        if nice * power >= least * 0.999:
            return nice * power
    return 10 * power


def _labelled(panel: ChartPanel, ticks: list[float]) -> tuple[tuple[float, str], ...]:
    """Each with its figure; one whose figure would stand there twice is left out."""
    labels: dict[str, float] = {}
    for tick in ticks:
        # A sum of steps may miss zero by a rounding error.
        labels.setdefault(amount(0.0 if abs(tick) < 1e-12 else tick, panel.unit), tick)
    return tuple((tick, label) for label, tick in labels.items())


def time_ticks(start: float, end: float, most: int) -> Iterator[tuple[float, str]]:
    """Round times of day in UTC, at most that many."""
    step = next((s for s in TIME_STEPS if (end - start) / s <= most), None)
    if step is None:
        days = math.ceil((end - start) / most / 86400)
        step = 86400 * days
    form = "%d %b" if step >= 86400 else "%H:%M"
    if step < 60:
        form = "%H:%M:%S"
    at = math.ceil(start / step) * step
    while at <= end:
        yield float(at), f"{datetime.fromtimestamp(at, UTC):{form}}"
        at += step
