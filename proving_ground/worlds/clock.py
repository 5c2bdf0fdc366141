"""The time axis of a world."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proving_ground.worlds.graph import Floats

STEP_S = 15
"""Seconds per step: the shortest scrape interval that is common."""


@dataclass(frozen=True)
class WorldClock:
    """`steps` steps of `STEP_S` seconds from `start_s` (seconds since 1970, UTC)."""

    start_s: int
    steps: int

    @property
    def seconds(self) -> Floats:
        """Start of each step since the first; shape [steps]."""
        return np.arange(self.steps, dtype=np.float64) * STEP_S

    def at(self, step: float) -> float:
        """Seconds since 1970 of a step."""
        return self.start_s + step * STEP_S

    def ramp(self, begin: int, steps: int) -> Floats:
        """0 before step `begin`, rising to 1 within `steps` steps; shape [steps]."""
        numbers = np.arange(self.steps, dtype=np.float64)
        return np.clip((numbers - begin + 1) / max(1, steps), 0.0, 1.0)

    def between(self, begin: int, end: int) -> Floats:
        """1 from step `begin` until before step `end`, else 0; shape [steps]."""
        numbers = np.arange(self.steps)
        return ((numbers >= begin) & (numbers < end)).astype(np.float64)
