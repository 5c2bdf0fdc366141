"""Alert rules: what they watch, when they fire, and false ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proving_ground.worlds.counts import Counts
from proving_ground.worlds.graph import Floats, Graph, UnitKind
from proving_ground.worlds.physics import SLOW_SPREAD, History
from proving_ground.worlds.queueing import lognormal, quantile
from proving_ground.worlds.seeds import WorldSeed

WATCHED = (UnitKind.FRONT, UnitKind.SERVICE, UnitKind.WORKER, UnitKind.QUEUE)
ERRORS, LATENCY, DEPTH, RATE, CPU = "error_ratio", "p95", "queue_depth", "request_rate", "cpu"


@dataclass(frozen=True)
class Rule:
    """Fires when the mean of `signal` over `window` steps exceeds `threshold` for `lasting` steps
    in a row."""

    unit: int
    signal: str
    threshold: float
    window: int
    lasting: int

    def fires(self, series: Floats, begin: int) -> int | None:
        """The first step from `begin` on at which it fires."""
        above = series > self.threshold
        is_sustained = (
            np.convolve(above, np.ones(self.lasting), "full")[: len(above)] >= self.lasting
        )
        steps = np.flatnonzero(is_sustained[begin:])
        return None if not len(steps) else int(steps[0]) + begin


class Signals:
    """The series that rules watch, computed on demand and kept."""

    def __init__(self, graph: Graph, history: History, counts: Counts, seed: WorldSeed) -> None:
        self._graph = graph
        self._history = history
        self._counts = counts
        self._seed = seed
        self._series_cache: dict[tuple[int, str, int], Floats] = {}

    def series(self, unit: int, signal: str, window: int) -> Floats:
        """The rolling mean of a signal; shape [steps]."""
        key = (unit, signal, window)
        if key not in self._series_cache:
            self._series_cache[key] = self._rolled(unit, signal, window)
        return self._series_cache[key]

    def _rolled(self, unit: int, signal: str, window: int) -> Floats:
        history, counts = self._history, self._counts
        if signal == ERRORS:
            failed = _rolling_sum(counts.failed[unit], window)
            arrived = _rolling_sum(counts.arrived[unit], window)
            # Rules on ratios usually want a few requests, or one failure of one would page.
            return np.where(arrived >= 20, failed / np.maximum(arrived, 1), 0.0)
        if signal == LATENCY:
            values = latency_quantile(history, unit, 0.95)
            noise = self._seed.generator("p95 noise", unit).standard_normal(len(values))
            requests = np.maximum(counts.arrived[unit], 1)
            values = values * np.exp(noise * np.minimum(1.2 / np.sqrt(requests), 0.5))
        elif signal == DEPTH:
            values = history.waiting[unit]
        elif signal == RATE:
            values = counts.arrived[unit] / 15
        else:
            values = history.used[unit]
        return _rolling_sum(values, window) / window


def latency_quantile(history: History, unit: int, share: float, at: slice | None = None) -> Floats:
    """A quantile of a unit's latency, in seconds; shape [steps]."""
    window = slice(None) if at is None else at
    usual, variance = history.usual_s[unit][window], history.variance[unit][window]
    slow, longer = history.slow_share[unit][window], history.slower_s[unit][window]
    return mixture_quantile(usual, variance, slow, longer, share)


def mixture_quantile(
    usual: Floats, variance: Floats, slow: Floats, longer: Floats, share: float
) -> Floats:
    """A quantile of the two-part latency of `physics`."""
    first = lognormal(usual, variance)
    if not (slow > 1e-4).any():
        z = {0.5: 0.0, 0.9: 1.2816, 0.95: 1.6449, 0.99: 2.3263}[share]
        return np.asarray(np.exp(first[0] + z * first[1]))
    second = lognormal(usual + longer, variance + (SLOW_SPREAD * longer) ** 2)
    return quantile(share, first, second, slow)


def draw_rules(graph: Graph, signals: Signals, until: int, seed: WorldSeed) -> list[Rule]:
    """A rule per watched unit and signal, whose threshold the time before step `until` stays
    below."""
    rng = seed.generator("rules")
    rules = []
    for unit in graph.of_kind(*WATCHED):
        kind = graph.units[unit].kind
        watched = (DEPTH,) if kind is UnitKind.QUEUE else (ERRORS, LATENCY)
        for signal in watched:
            window = int(rng.choice((4, 8, 20)))
            lasting = int(rng.choice((4, 8, 20)))
            margin, floor = rng.uniform(1.25, 2.0), rng.uniform(0.005, 0.03)
            calm = float(signals.series(unit, signal, window)[:until].max())
            threshold = calm * margin
            if signal == ERRORS:
                threshold = max(threshold, floor)
            elif signal == DEPTH:
                threshold = max(threshold, 50.0)
            if signal != ERRORS or threshold < 0.9:
                rules.append(Rule(unit, signal, _rounded(threshold), window, lasting))
    return rules


def tight_rule(
    unit: int, signal: str, signals: Signals, begin: int, end: int, rng: np.random.Generator
) -> Rule | None:
    """A rule that noise, the season or a batch job alone makes fire between two steps."""
    window = int(rng.choice((1, 4, 8)))
    series = signals.series(unit, signal, window)
    later = series[begin:end]
    if not len(later) or later.max() <= 0:
        return None
    # Just under the highest value still to come: it fires there, rarely or never before.
    threshold = float(np.quantile(later, rng.uniform(0.97, 0.995)))
    rule = Rule(unit, signal, _rounded(threshold * 0.999), window, 1)
    earlier = float((series[:begin] > rule.threshold).mean())
    fired = rule.fires(series, begin)
    if fired is None or fired >= end or earlier > 0.05:
        return None
    return rule


def _rolling_sum(values: Floats, window: int) -> Floats:
    total = np.cumsum(np.concatenate((np.zeros(window), values)))
    return np.asarray(total[window:] - total[:-window])


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
