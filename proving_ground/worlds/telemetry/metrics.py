"""The metrics table: quantities of the physics, under the names and with the losses of a world."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from proving_ground.worlds.alerts import mixture_quantile
from proving_ground.worlds.clock import STEP_S
from proving_ground.worlds.counts import whole_share
from proving_ground.worlds.graph import Floats, Replica, UnitKind
from proving_ground.worlds.telemetry.conditions import Conditions
from proving_ground.worlds.telemetry.conventions import CONVENTIONS, OF_KIND, MetricName
from proving_ground.worlds.world import World

QUANTILES = {"latency_p50": 0.5, "latency_p95": 0.95, "latency_p99": 0.99, "latency_max": 0.99}
BILLION = 1_000_000_000


@dataclass(frozen=True)
class Recorded:
    """One series: who, what, and points as (nanoseconds since 1970, value)."""

    service: str
    name: MetricName
    labels: str | None
    times: np.ndarray
    values: Floats


@dataclass(frozen=True)
class SampleGrid:
    """The points of one unit: first steps of `count` intervals of `width` steps."""

    first: int
    width: int
    count: int

    @classmethod
    def over(cls, begin: int, end: int, width: int) -> SampleGrid:
        """All whole intervals between two steps."""
        return cls(begin, width, max(0, (end - begin) // width))

    def sums(self, values: Floats) -> Floats:
        """Sum within each interval."""
        part = values[self.first : self.first + self.count * self.width]
        return np.asarray(part.reshape(self.count, self.width).sum(axis=1))

    def means(self, values: Floats) -> Floats:
        """Mean within each interval."""
        return self.sums(values) / self.width

    @property
    def seconds(self) -> int:
        """Length of an interval."""
        return self.width * STEP_S

    @property
    def ends(self) -> np.ndarray:
        """The step after each interval."""
        return self.first + (np.arange(self.count) + 1) * self.width


def metrics_table(world: World, conditions: Conditions) -> pl.DataFrame:
    """time, service, signal, value, unit, labels; from the world's start to the window's end."""
    series = list(MetricsRecorder(world, conditions).record())
    if not series:
        return pl.DataFrame()
    all_times = np.concatenate([series.times for series in series])
    # Sorted by time here, on numbers: sorting a table by its text columns takes ten times as long.
    order = np.argsort(all_times, kind="stable")
    which = np.repeat(np.arange(len(series)), [len(series.times) for series in series])[order]
    facts = pl.DataFrame(
        {
            "service": [series.service for series in series],
            "signal": [series.name.signal for series in series],
            "unit": pl.Series([series.name.unit for series in series], dtype=pl.String),
            "labels": pl.Series([series.labels for series in series], dtype=pl.String),
        }
    )[pl.Series(which)]
    instants = pl.Series("time", all_times[order]).cast(pl.Datetime("ns"))
    values = pl.Series("value", np.concatenate([series.values for series in series])[order])
    columns = [instants.dt.replace_time_zone("UTC"), facts["service"], facts["signal"], values]
    return pl.DataFrame([*columns, facts["unit"], facts["labels"]])


class MetricsRecorder:
    """Records one world's metrics."""

    def __init__(self, world: World, conditions: Conditions) -> None:
        self._world = world
        self._conditions = conditions

    def record(self) -> Iterator[Recorded]:
        """All series of all watched units."""
        graph, conditions = self._world.graph, self._conditions
        for unit, value in enumerate(graph.units):
            if unit in conditions.silent or value.kind is UnitKind.EXTERNAL:
                continue
            grid = SampleGrid.over(0, self._last_step(unit), conditions.intervals[unit])
            names = CONVENTIONS[conditions.conventions[unit]]
            yield from self._unit_series(unit, grid, names)
            if conditions.client_metrics:
                yield from self._client_series(unit, grid, names)

    def _last_step(self, unit: int) -> int:
        rng = self._world.seed.generator("lag", unit)
        # Tails lag unevenly: exporters flush when they like.
        return self._world.window[1] - int(self._conditions.lag_steps * rng.uniform(0.5, 1.5))

    def _unit_series(
        self, unit: int, grid: SampleGrid, names: dict[str, MetricName]
    ) -> Iterator[Recorded]:
        world = self._world
        value = world.graph.units[unit]
        by_pod = self._conditions.labels == "pod" and len(value.pods) > 1
        targets: list[int | None] = [None]
        if by_pod:
            targets = list(range(len(value.pods)))
        chosen = world.seed.generator("missing metrics", unit)
        for quantity in OF_KIND[value.kind]:
            # Drawn for each quantity, so that no convention shifts the draws of the others.
            missing = chosen.random() < self._conditions.missing_metrics
            name = names.get(quantity)
            watched = unit == world.rule.unit and quantity in ALERTED.get(world.rule.signal, ())
            if name is None or (missing and not watched):
                continue
            for pod in targets:
                values = self._quantity(unit, quantity, grid, pod)
                if values is not None:
                    labels = self._labels(unit, pod)
                    yield self._recorded(unit, quantity, name, labels, grid, values, pod)

    def _quantity(
        self, unit: int, quantity: str, grid: SampleGrid, pod: int | None
    ) -> Floats | None:
        """A quantity of a unit or of one of its pods; shape [intervals]."""
        rng = self._world.seed.generator("metric noise", unit, quantity, -1 if pod is None else pod)
        if quantity in ("requests", "errors", "error_ratio", "latency_sum"):
            requests, errors = self._traffic(unit, grid, pod)
            if quantity == "requests":
                return requests
            if quantity == "errors":
                return errors
            if quantity == "latency_sum":
                return requests * self._latency(unit, "latency_mean", grid, pod, rng)
            ratio = errors / np.maximum(requests, 1)
            return np.where(requests > 0, ratio, np.nan)
        if quantity.startswith("latency"):
            return self._latency(unit, quantity, grid, pod, rng)
        return self._state(unit, quantity, grid, rng)

    def _traffic(self, unit: int, grid: SampleGrid, pod: int | None) -> tuple[Floats, Floats]:
        world = self._world
        requests = grid.sums(world.counts.arrived[unit])
        errors = grid.sums(world.counts.failed[unit])
        if pod is None:
            return requests, errors
        pods = len(world.graph.units[unit].pods)
        rng = world.seed.generator("pod traffic", unit, pod)
        mine = whole_share(rng, requests, np.full(grid.count, 1 / pods))
        share = errors / np.maximum(requests, 1)
        excess, at_pod = self._pod_excess(unit, grid, pod, "failing")
        share = np.clip(share - excess + at_pod, 0, 1)
        return mine, whole_share(rng, mine, share)

    def _pod_excess(
        self, unit: int, grid: SampleGrid, pod: int, what: str
    ) -> tuple[Floats, Floats]:
        """(mean over all pods, at this pod) of what parts of the unit add; shape [intervals]."""
        everywhere = np.zeros(grid.count)
        here = np.zeros(grid.count)
        pods = len(self._world.graph.units[unit].pods)
        for part in self._world.levers.parts.get(unit, []):
            added = part.failing if what == "failing" else (part.slower_s > 0).astype(float)
            mean = grid.means(part.share * added)
            everywhere += mean
            if pod in part.pods:
                here += mean * pods / len(part.pods)
        return everywhere, here

    def _latency(
        self, unit: int, quantity: str, grid: SampleGrid, pod: int | None, rng: np.random.Generator
    ) -> Floats:
        history = self._world.history
        usual, variance = grid.means(history.usual_s[unit]), grid.means(history.variance[unit])
        slow, longer = grid.means(history.slow_share[unit]), grid.means(history.slower_s[unit])
        if pod is not None:
            excess, at_pod = self._pod_excess(unit, grid, pod, "slow")
            slow = np.clip(slow - excess + at_pod, 0, 1)
        requests = grid.sums(self._world.counts.arrived[unit])
        if quantity == "latency_mean":
            values = usual + slow * longer
            spread = np.sqrt(variance + slow * longer**2) / np.maximum(values, 1e-9)
            noise = spread / np.sqrt(np.maximum(requests, 1))
        else:
            share = QUANTILES[quantity]
            values = mixture_quantile(usual, variance, slow, longer, share)
            tail = np.maximum(requests * (1 - share), 0.5)
            noise = 0.6 * np.sqrt(variance) / np.maximum(usual, 1e-9) / np.sqrt(tail)
            if quantity == "latency_max":
                values = values * 1.3
        values = values * np.exp(np.minimum(noise, 0.5) * rng.standard_normal(grid.count))
        return np.where(requests > 0, values, np.nan)

    def _state(
        self, unit: int, quantity: str, grid: SampleGrid, rng: np.random.Generator
    ) -> Floats | None:
        """Gauges of the unit itself; those of a single pod are taken to be alike."""
        world = self._world
        history, levers, value = world.history, world.levers, world.graph.units[unit]
        noise = rng.standard_normal(grid.count)
        whole = slice(0, world.clock.steps)
        if quantity == "cpu":
            used = grid.means(history.used[unit])
            return np.asarray(np.clip(used * (1 + 0.05 * noise) + 0.01 * np.abs(noise), 0, 1))
        if quantity in ("memory", "memory_share"):
            base = np.asarray(rng.uniform(0.3, 0.5) + np.cumsum(noise) * 0.0004)
            leaked = levers.get("memory", unit, whole)
            if leaked is not None:
                base = np.asarray(base + grid.means(leaked))
            share = np.clip(base + 0.05 * grid.means(history.used[unit]), 0.05, 1)
            return np.asarray(share * (1 if quantity == "memory_share" else value.memory_mb * 2e6))
        if quantity == "disk":
            filled = levers.get("disk", unit, whole)
            full = np.asarray(rng.uniform(0.2, 0.45) + 0.00001 * np.arange(grid.count))
            if filled is not None:
                full = np.asarray(full + grid.means(filled))
            return np.asarray(np.minimum(full, 1.0))
        if quantity == "threads":
            return np.asarray(
                np.clip(grid.means(history.concurrency[unit]) * (1 + 0.1 * noise), 0, 1)
            )
        if quantity in ("pool_used", "pool_waiting"):
            return self._pool(unit, quantity, grid, noise)
        if quantity == "queue_depth":
            depth = grid.means(history.waiting[unit]) + 2 * np.abs(noise)
            return np.asarray(np.rint(depth))
        if quantity == "hit_ratio":
            return self._hit_ratio(unit, grid, noise)
        if quantity == "restarts":
            return self._restart_count(unit, grid)
        if quantity == "replicas":
            return np.rint(grid.means(history.pods[unit]))
        if quantity == "pause":
            slow = [grid.means(part.slower_s) for part in levers.parts.get(unit, [])]
            return np.asarray(0.02 * np.exp(0.3 * noise) + sum(slow, np.zeros(grid.count)))
        return None

    def _pool(self, unit: int, quantity: str, grid: SampleGrid, noise: Floats) -> Floats | None:
        """Connections in use: of a service the fullest pool, of a database all callers' calls."""
        graph, history = self._world.graph, self._world.history
        if graph.units[unit].kind is UnitKind.DATABASE:
            in_use = np.zeros(self._world.clock.steps)
            size = 0
            for number in graph.callers_of[unit]:
                pool = graph.edges[number].pool
                in_use = in_use + np.minimum(history.pool_used[number], 1.0) * pool
                size += pool
            return np.clip(grid.means(in_use) / max(size, 1) + 0.01 * np.abs(noise), 0, 1)
        calls = graph.calls_of[unit]
        pooled = [n for n in range(calls.start, calls.stop) if graph.edges[n].pool]
        if not pooled:
            return None
        used = np.max([grid.means(history.pool_used[n]) for n in pooled], axis=0)
        if quantity == "pool_used":
            return np.asarray(np.clip(used * (1 + 0.1 * noise), 0, 1))
        return np.asarray(np.maximum(np.rint((used - 0.8) * 30), 0))

    def _hit_ratio(self, unit: int, grid: SampleGrid, noise: Floats) -> Floats | None:
        graph, levers = self._world.graph, self._world.levers
        whole = slice(0, self._world.clock.steps)
        missed = []
        for number, edge in enumerate(graph.edges):
            if edge.cache == unit:
                moved = levers.get("miss", number, whole)
                factor = np.ones(self._world.clock.steps) if moved is None else moved
                missed.append(grid.means(edge.miss * factor))
        if not missed:
            return None
        return np.asarray(np.clip(1 - np.mean(missed, axis=0) + 0.004 * noise, 0, 1))

    def _restart_count(self, unit: int, grid: SampleGrid) -> Floats:
        """Restarts within each interval."""
        events = np.zeros(self._world.clock.steps)
        for hit, step in self._conditions.restarts:
            if hit == unit:
                events[step] += 1
        moved = self._world.levers.get("restarts", unit, slice(0, len(events)))
        return grid.sums(events if moved is None else events + moved)

    def _client_series(
        self, unit: int, grid: SampleGrid, names: dict[str, MetricName]
    ) -> Iterator[Recorded]:
        """What a caller measures of its calls, per callee."""
        world = self._world
        calls = world.graph.calls_of[unit]
        for number in range(calls.start, calls.stop):
            edge = world.graph.edges[number]
            if not edge.waits:
                continue
            called = grid.sums(world.counts.called[number])
            if called.mean() < 0.2:
                continue
            labels = json.dumps({"peer": world.graph.units[edge.callee].name})
            rng = world.seed.generator("client noise", number)
            for quantity in ("client_latency", "client_errors"):
                name = names.get(quantity)
                if name is None:
                    continue
                if quantity == "client_errors":
                    values = grid.sums(world.counts.call_failed[number])
                else:
                    noise = 0.7 * rng.standard_normal(grid.count) / np.sqrt(np.maximum(called, 1))
                    values = grid.means(world.history.call_s[number]) * np.exp(noise)
                    values = np.where(called > 0, values, np.nan)
                yield self._recorded(unit, f"{quantity} {number}", name, labels, grid, values, None)

    def _labels(self, unit: int, pod: int | None) -> str | None:
        world = self._world
        if self._conditions.labels == "none":
            return None
        value = world.graph.units[unit]
        machines = world.graph.machines
        if pod is None:
            clusters = sorted({machines[p.machine].cluster for p in value.pods})
            return json.dumps({"cluster": clusters[0]}) if len(clusters) == 1 else None
        return json.dumps(pod_labels(world, value.pods[pod]))

    def _recorded(
        self,
        unit: int,
        quantity: str,
        name: MetricName,
        labels: str | None,
        grid: SampleGrid,
        values: Floats,
        pod: int | None,
    ) -> Recorded:
        shown = values * name.scale
        if name.form == "rate":
            shown = shown / grid.seconds
        elif name.form == "lacking":
            shown = name.scale - shown
        elif name.form == "total":
            shown = self._running(unit, grid, np.nan_to_num(shown), quantity)
        rng = self._world.seed.generator("points", unit, quantity, -1 if pod is None else pod)
        offset = rng.uniform(0, self._conditions.jitter_s or 1e-9)
        jitter = rng.uniform(0, self._conditions.jitter_s / 5 or 1e-9, grid.count)
        seconds = grid.ends * STEP_S + offset + jitter
        start = self._world.clock.start_s
        times = (np.rint(seconds * 1000) * (BILLION // 1000)).astype(np.int64) + start * BILLION
        point_mask = rng.random(grid.count) >= self._conditions.missing_points
        point_mask &= np.isfinite(shown) & (seconds <= self._world.window[1] * STEP_S)
        for seam in self._conditions.seams:
            if seam.unit is None or seam.unit == unit:
                point_mask &= ~((grid.ends > seam.begins) & (grid.ends <= seam.ends))
        service = self._world.graph.units[unit].name
        return Recorded(service, name, labels, times[point_mask], shown[point_mask].round(6))

    def _running(self, unit: int, grid: SampleGrid, values: Floats, quantity: str) -> Floats:
        """A counter: a running sum that starts again after a restart."""
        total = np.cumsum(values) + 1000
        if quantity == "restarts":
            return total - 1000
        for hit, step in sorted(self._conditions.restarts, key=lambda pair: pair[1]):
            place = (step - grid.first) // grid.width
            if hit == unit and 0 < place < grid.count:
                total[place:] -= total[place] - values[place]
        return np.asarray(total)


ALERTED = {
    "error_ratio": ("requests", "errors", "error_ratio"),
    "p95": ("latency_p95", "latency_p99", "latency_mean", "latency_max", "latency_sum"),
    "queue_depth": ("queue_depth",),
    "request_rate": ("requests",),
    "cpu": ("cpu",),
}
"""The quantities that show what a rule watches; those of the alerting unit are always collected."""


def pod_labels(world: World, pod: Replica) -> dict[str, str]:
    """Where a pod runs, as metrics and spans carry it."""
    machine = world.graph.machines[pod.machine]
    return {
        "pod": pod.name,
        "node": machine.name,
        "zone": machine.zone,
        "cluster": machine.cluster,
    }
