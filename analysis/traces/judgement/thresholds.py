"""From what share of the step waiting is worth a warning, and when an accelerator's memory is
nearly full or grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

# When an accelerator's memory is nearly full, and when what is held grows.

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


# From what share of the step waiting is worth a warning, and when a rank is late in most steps.

WARN_SHARE, CRITICAL_SHARE = 0.10, 0.20
"""Share of the step that is lost to waiting for input, for a copy or for another rank (TraceML's
overhead shares, INPUT_BOUND and straggler's score; TensorBoard's plugin advises from 5 % on
input). Where arrivals are known a rank is a straggler from the critical share of wall time on, and
delays a step from the critical share of it on."""
CRITICAL_STEPS = 20
"""Least steps from which anything timed from outside is critical (TraceML)."""
PERSISTENT = 0.5
"""Share of the steps in which a straggler must be late (own: recorded stragglers 5 to 8 of 8
steps, healthy jobs and single pauses at most 4 of 8, on 34 labelled recordings)."""

INPUT_FIX = (
    "More DataLoader workers (num_workers), prefetch_factor, persistent_workers, pin_memory; "
    "faster storage or cheaper transforms."
)
LATE_INPUT_FIX = (
    "Look at what that rank reads and from where, the storage and CPUs of its host, and whether "
    "its shard is larger or its samples longer than the others'."
)


def severity_of(share: float, steps: int) -> Literal["critical", "warning"]:
    """Of this share of the step lost, where that many steps were timed from outside."""
    critical = share >= CRITICAL_SHARE and steps >= CRITICAL_STEPS
    return "critical" if critical else "warning"
