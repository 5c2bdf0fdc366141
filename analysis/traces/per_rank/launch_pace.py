"""Whether the host sets the pace: time in which the accelerator is idle because the next kernel is
not launched yet.

A pause of the device counts when the work that ends it was launched after the pause had begun, and
only where it is short: in a long one the host does something else than launching (`device_use`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import launches_of
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.per_rank.device_use import LONG_GAP_NS
from faultline.analysis.traces.per_rank.step_times import StepWindow, window_of

TRAINING = ("autograd::engine", "## backward", "Optimizer.step")
"""Beginnings of names that only a job that trains records."""


@dataclass(frozen=True)
class LaunchPace:
    """The accelerator's pauses in the window."""

    idle_ns: int
    late_ns: int
    """Of it, in pauses of less than 1 ms that end with work launched after they began."""
    trains: bool
    """Whether the trace holds a backward pass or an optimizer."""


def launch_pace(trace: TraceColumns, window: StepWindow | None = None) -> LaunchPace:
    """The rank's pauses. O(device events log device events)."""
    window = window or window_of(trace)
    trains = len(trace.rows_named(lambda name: name.startswith(TRAINING))) > 0
    device = np.flatnonzero(trace.on_device & window.holds(trace))
    device = device[np.argsort(trace.ts[device], kind="stable")]
    if len(device) < 2:
        return LaunchPace(0, 0, trains)
    end_before = np.maximum.accumulate(trace.end[device])[:-1]
    gap = trace.ts[device][1:] - end_before
    after = np.flatnonzero(gap > 0)
    launch = launches_of(trace, device[after + 1])
    late = (launch >= 0) & (trace.ts[np.maximum(launch, 0)] >= end_before[after])
    late &= gap[after] < LONG_GAP_NS
    return LaunchPace(int(gap[after].sum()), int(gap[after][late].sum()), trains)
