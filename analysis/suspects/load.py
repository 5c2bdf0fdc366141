"""How much more is asked of a service than just before, beside how much its requests change anyway.

The level just before is what counts: requests rise every morning and double every week, and only a
baseline of the same hours would know.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from faultline.analysis.metrics.shift_statistics import Floats
from faultline.analysis.requests.topology import Topology
from faultline.analysis.suspects.deviations import Deviation

QUANTILE = 0.95
"""p95 of how much requests change from one stretch to the next while nothing is wrong."""
RECENT = 4
"""Stretches as long as the incident before it: what leads up to an alert may reach into the last of
them."""
LEAST_CHANGES = 3
USUAL_IF_UNKNOWN = 0.3
"""Logarithm that is taken for usual where the past is too short to tell: a third more or less."""
LEAST_USUAL = 0.1
LEAST_POINTS = 3
FALLS_TO = 0.01
"""Requests that stop are read as a hundredth, so that a logarithm exists."""
LEAST_CALLEES = 2
"""With a single callee it is unknown whether its caller gets more requests or calls more often."""


@dataclass(frozen=True)
class LoadChange:
    """Requests before and now, in their own unit, and by which logarithm they change anyway."""

    before: float
    now: float
    usual: float

    @property
    def log(self) -> float:
        """The logarithm of how many times its usual requests it gets; 0 within the usual."""
        if self.before <= 0:
            return 0.0
        # A logarithm of zero does not exist, and requests do stop.
        change = math.log(max(self.now, FALLS_TO * self.before) / self.before)
        return change if abs(change) > self.usual else 0.0

    @property
    def clearness(self) -> float:
        """How many times the usual change it is."""
        change = math.log(max(self.now, FALLS_TO * self.before) / self.before)
        return abs(change) / self.usual


def load_change(deviation: Deviation, now: float) -> LoadChange | None:
    """The change of one series; `now` is its level while the alert is bad. None without requests
    before."""
    past = deviation.values[: -deviation.searched]
    length = max(LEAST_POINTS, min(deviation.searched, len(past)))
    # The median of each stretch of the incident's length, up to its start.
    count = max(1, len(past) // length)
    # The latest stretches up to the start; what does not fill one at the beginning is left out.
    stretches = past[-count * length :].reshape(count, -1)
    levels = np.asarray(np.median(stretches, axis=1))
    before = float(np.median(levels[-RECENT:]))
    if before <= 0:
        return None
    return LoadChange(before, max(0.0, now), _usual(levels))


def _usual(levels: Floats) -> float:
    """By how much a stretch differs from those before it while nothing is wrong."""
    if len(levels) < RECENT + LEAST_CHANGES:
        return USUAL_IF_UNKNOWN
    before = np.median(np.lib.stride_tricks.sliding_window_view(levels[:-1], RECENT), axis=1)
    after = levels[RECENT:]
    mask = (before > 0) & (after > 0)
    changes = np.abs(np.log(after[mask] / before[mask]))
    if len(changes) < LEAST_CHANGES:
        return USUAL_IF_UNKNOWN
    return max(LEAST_USUAL, float(np.quantile(changes, QUANTILE)))


def together(parts: Iterable[LoadChange]) -> LoadChange:
    """The change of a service over its instances."""
    every = list(parts)
    return LoadChange(
        sum(part.before for part in every),
        sum(part.now for part in every),
        float(np.median([part.usual for part in every])),
    )


@dataclass(frozen=True)
class Loads:
    """By service, how much more is asked of it, as a logarithm."""

    measured: Mapping[str, LoadChange]
    graph: Topology

    def of(self, service: str) -> float | None:
        """Measured, else what its callees have in common; None where neither is known."""
        change = self.measured.get(service)
        if change is not None:
            return change.log
        return self._common.get(service)

    def of_callers(self, service: str) -> float:
        """The largest rise among those that call it; 0 where none is known."""
        loads = (self.of(caller) for caller in self.graph.callers(service))
        return max([0.0, *(load for load in loads if load is not None)])

    def asks_more(self, service: str) -> float:
        """In [0, 1]: how much more often it calls one of its callees than it and the callee's
        other callers are asked for more."""
        most = 0.0
        service_load = self.of(service) or 0.0
        for callee in self.graph.callees(service):
            change = self.measured.get(callee)
            if change is None:
                continue
            other_loads = (self.of(c) for c in self.graph.callers(callee) if c != service)
            explained = max([service_load, *(load for load in other_loads if load is not None)])
            most = max(most, change.log - explained)
        return min(1.0, max(0.0, most))

    def starved(self, service: str) -> float:
        """In [0, 1]: how much less it gets than its callers are asked for."""
        change = self.measured.get(service)
        if change is None or not self.graph.callers(service):
            return 0.0
        return min(1.0, max(0.0, self.of_callers(service) - change.log))

    @cached_property
    def _common(self) -> dict[str, float]:
        commons = {}
        for service in sorted({caller for caller, _ in self.graph.edges}):
            callees = self.graph.callees(service)
            logs = [self.measured[callee].log for callee in callees if callee in self.measured]
            if len(logs) >= LEAST_CALLEES:
                commons[service] = float(np.median(logs))
        return commons
