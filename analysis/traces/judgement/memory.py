"""When an accelerator's memory is nearly full, and when what is held grows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

PRESSURE, HIGH_PRESSURE = 0.92, 0.97
"""Reserved share of the device's memory that warns, and that is critical (TraceML; TensorBoard's
plugin advises from 90 %)."""
PRESSURE_FIX = (
    "Activation checkpointing, mixed precision, sharded states (FSDP), or a smaller batch."
)
RESERVED_RATIO = 2.0
"""Reserved over allocated from which the rest is fragmented (TraceML)."""
CREEP_BYTES, CREEP_STEPS = 2**30, 50
"""Growth of 1 GiB over 50 steps (TraceML): 21 MB per step. A short recording shows less, so that
there the slope is judged."""
SLOPE_BYTES = 2**16
"""Least growth per step that counts in a short recording (own: a list of scalars that keep their
graphs)."""
RISING_SHARE = 0.8
"""Share of the steps that must lie above the one before (own: healthy recorded jobs 0 to 20 %)."""
MIN_STEPS = 5


def pressure(share: float) -> Literal["critical", "warning"] | None:
    """How bad it is that this share of the device's memory is reserved; None where it is not."""
    if share >= HIGH_PRESSURE:
        return "critical"
    return "warning" if share >= PRESSURE else None


@dataclass(frozen=True)
class MemoryRise:
    """The lowest total of each step, in bytes: what a step needs for itself does not count."""

    steps: int
    first_bytes: int
    last_bytes: int
    rising: int
    """Steps after the first whose lowest total is above the step before."""
    slope_bytes: int
    """Per step: the median of the differences from step to step."""

    @property
    def grown_bytes(self) -> int:
        """From the first step to the last."""
        return self.last_bytes - self.first_bytes

    @property
    def severity(self) -> Literal["critical", "warning"]:
        """Of memory that grows."""
        return "critical" if self.slope_bytes >= CREEP_BYTES / CREEP_STEPS else "warning"

    def grows(self, least_steps: int = MIN_STEPS) -> bool:
        """Whether memory is left behind in nearly every step."""
        rises = self.rising >= RISING_SHARE * (self.steps - 1)
        return self.steps >= least_steps and self.slope_bytes >= SLOPE_BYTES and rises


def rise_of(lows: NDArray[np.int64]) -> MemoryRise | None:
    """None for fewer than two steps."""
    if len(lows) < 2:
        return None
    change = np.diff(lows)
    # Take the median: a single large step is no steady growth.
    rising, slope = int((change > 0).sum()), int(np.median(change))
    return MemoryRise(len(lows), int(lows[0]), int(lows[-1]), rising, slope)
