"""What one rule saw on one device, before devices with the same fault share one finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from faultline.analysis.gpus.fleet import Device
from faultline.analysis.metrics.shift_statistics import Bools


@dataclass(frozen=True)
class Sign:
    """`says` follows the device's name in the sentence; each number that it quotes stands in
    `numbers`.

    Devices of one host, or of the whole job, whose signs have the same `kind` and `reason` become
    one finding, worded by the strongest of them.
    """

    kind: str
    device: Device
    signal: str
    strength: float
    says: str
    reason: str
    fix: str
    source: str
    onset_ns: int | None = None
    uncertainty_s: float = 0.0
    numbers: Mapping[str, float] = field(default_factory=dict)
    whole_job: bool = False
    """Whether it speaks of all GPUs together, not of the device."""
    events: tuple[str, ...] | None = None
    """Why the clock was lowered, in words; of a lowered clock only."""
    minutes: float | None = None
    """How long it was lowered."""
    xids: tuple[int, ...] | None = None
    """Xid codes, the one that says most first."""


def longest_run(true: Bools, valid: Bools) -> tuple[int, int, int]:
    """First and last column of the longest run of `true` and how many are true in it; (-1, -1, 0)
    without one.

    A column that is not known neither counts nor breaks the run, and one that is false breaks it
    only with a second.
    """
    longest = (-1, -1, 0)
    first, last, count, misses = -1, -1, 0, 0
    for column in np.flatnonzero(valid):
        if true[column]:
            first = int(column) if first < 0 else first
            last, count, misses = int(column), count + 1, 0
            if count > longest[2]:
                longest = (first, last, count)
        elif first >= 0:
            misses += 1
            if misses > 1:
                first, last, count, misses = -1, -1, 0, 0
    return longest
