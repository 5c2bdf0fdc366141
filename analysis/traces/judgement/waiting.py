"""From what share of the step waiting is worth a warning, and when a rank is late in most steps."""

from __future__ import annotations

from typing import Literal

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
