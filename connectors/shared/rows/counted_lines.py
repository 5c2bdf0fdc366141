"""Lines of logs as counts per minute, as the backends of logs share them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.rows.collection_builder import nanoseconds

FAILING = frozenset(
    {"error", "err", "fatal", "critical", "crit", "alert", "emerg", "emergency", "panic"}
)
"""Levels that count as errors, in lower case."""
LONGEST_LINE = 8000
MOST_STEPS = 360
"""Points of a series of counts in one window."""


@dataclass(frozen=True)
class CountGrid:
    """Whole steps inside a window, at multiples of the step, to which backends align counts."""

    start_s: int
    step_s: int
    steps: int

    @classmethod
    def of(cls, window: Window) -> CountGrid:
        """Steps of a minute, longer where they would be more than `MOST_STEPS`."""
        step = 60 * max(1, math.ceil(window.seconds / 60 / MOST_STEPS))
        start = math.ceil(nanoseconds(window.start) / 1e9 / step) * step
        end = math.floor(nanoseconds(window.end) / 1e9 / step) * step
        return cls(start, step, max(0, (end - start) // step))

    def rows(
        self, signal: str, service: str, counted: Iterable[tuple[int, float]]
    ) -> list[tuple[Any, ...]]:
        """Rows of metrics: lines per minute in each step, by the moment it begins, from the lines
        counted in (number of the step, count). Steps outside are left out, none counted is 0."""
        sums = [0.0] * self.steps
        for step, count in counted:
            if 0 <= step < self.steps:
                sums[step] += count * 60 / self.step_s
        rows: list[tuple[Any, ...]] = []
        for step, value in enumerate(sums):
            begins_ns = (self.start_s + step * self.step_s) * 1_000_000_000
            rows.append((begins_ns, service, signal, value, "1/min", None))
        return rows
