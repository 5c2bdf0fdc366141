"""What the baselines are given of a case: its series on both sides, its graph, who alerts.

They read the same tables in the same windows as the analysis does, counters as rates, availability
as what is missing of it. Nothing else of the analysis is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.signals import SignalClass, classify
from faultline.analysis.metrics.series import Block, blocks_of
from faultline.analysis.metrics.shift_statistics import Floats, Ints
from faultline.analysis.requests.topology import Topology, read_topology


@dataclass(frozen=True)
class MeasuredSeries:
    """One series: its finite points before the incident and in it, times in ns."""

    service: str
    signal: str
    before_times: Ints
    before: Floats
    times: Ints
    now: Floats

    @property
    def signal_class(self) -> SignalClass:
        """What it measures."""
        return classify(self.signal)

    @cached_property
    def shift(self) -> float:
        """How far its median moved, either way, in interquartile ranges."""
        centre, scale = self.robust_scale
        return abs(float(np.median(self.now)) - centre) / scale

    @cached_property
    def robust_scale(self) -> tuple[float, float]:
        """Median and interquartile range before; a range of 0 counts as 1, as scikit-learn's
        RobustScaler has it."""
        low, centre, high = np.percentile(self.before, (25, 50, 75))
        return float(centre), float(high - low) or 1.0


@dataclass(frozen=True)
class BaselineInputs:
    """One case as the baselines see it."""

    case: Case

    @cached_property
    def series(self) -> tuple[MeasuredSeries, ...]:
        """Every series with points on both sides."""
        series: list[MeasuredSeries] = []
        for block in blocks_of(self.case):
            series += _rows(block)
        return tuple(series)

    @cached_property
    def alike(self) -> tuple[MeasuredSeries, ...]:
        """Where the alert names a signal, the series of its class, and all those of services that
        have none; else every series."""
        if not self.case.alert.signal:
            return self.series
        requested_classify = classify(self.case.alert.signal)
        services = {
            series.service for series in self.series if series.signal_class is requested_classify
        }
        remaining_series = []
        for series in self.series:
            if series.signal_class is requested_classify or series.service not in services:
                remaining_series.append(series)
        return tuple(remaining_series)

    @cached_property
    def graph(self) -> Topology:
        """Who calls whom, as far as the case tells."""
        return read_topology(self.case)

    @cached_property
    def services(self) -> frozenset[str]:
        """Every service with a series or a call."""
        return self.graph.services | {series.service for series in self.series}

    @cached_property
    def alerting(self) -> tuple[str, ...]:
        """The service that the alert names, or that its title names; else whoever nobody calls,
        with the most callees first."""
        alert = self.case.alert
        if alert.service:
            return (alert.service,)
        words = {word.strip(".,:;()[]'\"") for word in alert.title.split()}
        named = sorted(words & self.services, key=lambda name: (-len(name), name))
        if named:
            return tuple(named[:1])
        doors = [service for service in self.graph.services if not self.graph.callers(service)]
        return tuple(sorted(doors, key=lambda door: (-len(self.graph.callees(door)), door)))

    @cached_property
    def target(self) -> MeasuredSeries | None:
        """The alerting series: the one that the alert names, else the one of the alerting service
        that moved most; without such a service the one that moved most of all."""
        series = [series for series in self.series if series.service in self.alerting[:1]]
        named = [series for series in series if series.signal == self.case.alert.signal]
        among = named or series or self.series
        return max(
            among,
            key=lambda candidate: (candidate.shift, candidate.service, candidate.signal),
            default=None,
        )


def _rows(block: Block) -> Iterator[MeasuredSeries]:
    for row in range(block.values.shape[0]):
        service, signal, _, _ = block.keys.row(row)
        before, now = np.isfinite(block.before[row]), np.isfinite(block.values[row])
        if before.any() and now.any():
            yield MeasuredSeries(
                service,
                signal,
                block.before_times[row][before],
                block.before[row][before],
                block.times[row][now],
                block.values[row][now],
            )
