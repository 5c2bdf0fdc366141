"""The spans table: sampled requests that walk down the graph through the physics of their step."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from proving_ground.worlds.clock import STEP_S
from proving_ground.worlds.graph import Floats, UnitKind
from proving_ground.worlds.physics import FAIL_FAST_S
from proving_ground.worlds.telemetry.conditions import Conditions
from proving_ground.worlds.telemetry.metrics import BILLION, pod_labels
from proving_ground.worlds.world import World

MOST_SPANS_PER_TRACE = 60
"""Where a walk stops adding calls; collectors cut large traces too."""


@dataclass
class _Columns:
    trace: list[str] = field(default_factory=list)
    span: list[str] = field(default_factory=list)
    parent: list[str | None] = field(default_factory=list)
    service: list[str] = field(default_factory=list)
    operation: list[str] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    duration: list[float] = field(default_factory=list)
    status: list[str] = field(default_factory=list)
    attributes: list[str | None] = field(default_factory=list)


def spans_table(world: World, conditions: Conditions, since: int) -> pl.DataFrame:
    """Spans of sampled requests between step `since` and the window's end."""
    if not conditions.spans:
        return pl.DataFrame()
    walker = RequestWalker(world, conditions)
    rng = world.seed.generator("traces")
    entered = world.counts.entered[:, since : world.window[1]]
    chances = entered.sum(axis=0)
    if chances.sum() <= 0:
        return pl.DataFrame()
    count = min(conditions.spans, int(chances.sum()))
    steps = rng.choice(len(chances), size=count, p=chances / chances.sum())
    for step in np.sort(steps):
        weights = entered[:, int(step)]
        route = int(rng.choice(len(weights), p=weights / weights.sum()))
        walker.walk(since + int(step), route)
    return walker.table()


class RequestWalker:
    """Walks single requests through the system. Own times, time-outs, retries and failures are
    drawn from the same arrays that the metrics come from."""

    def __init__(self, world: World, conditions: Conditions) -> None:
        self._world = world
        self._conditions = conditions
        self._rng = world.seed.generator("walk")
        self._columns = _Columns()
        self._trace = ""
        self._left = 0
        self._step = 0
        self._route = 0
        graph = world.graph
        self._visits = np.array([route.visits for route in graph.routes])
        self._calls = np.array([route.calls for route in graph.routes])
        self._callers = [edge.caller for edge in graph.edges]
        self._mix = np.ones(len(graph.edges))

    def walk(self, step: int, route: int) -> None:
        """One request of a route that enters at a step."""
        self._step, self._route = step, route
        self._mix = self._usual_mix()
        self._trace = self._identity(16)
        self._left = MOST_SPANS_PER_TRACE
        world = self._world
        start = (step + self._rng.random()) * STEP_S
        entry = world.graph.routes[route]
        self._serve(entry.front, None, None, start, entry.name)

    def table(self) -> pl.DataFrame:
        """All spans so far."""
        made = self._columns
        start = self._world.clock.start_s * BILLION
        table = pl.DataFrame(
            {
                "trace_id": made.trace,
                "span_id": made.span,
                "parent_id": pl.Series(made.parent, dtype=pl.String),
                "service": made.service,
                "operation": made.operation,
                "start": pl.Series([start + n for n in made.start], dtype=pl.Int64),
                "duration_us": made.duration,
                "status": made.status,
                "attributes": pl.Series(made.attributes, dtype=pl.String),
            }
        )
        instant = pl.col("start").cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
        return table.with_columns(instant)

    def _serve(
        self, unit: int, caller: int | None, parent: str | None, start: float, operation: str
    ) -> tuple[float, bool]:
        """(seconds, whether it failed) of a request at a unit."""
        world, step, rng = self._world, self._step, self._rng
        history, graph = world.history, world.graph
        pod = int(rng.integers(len(graph.units[unit].pods)))
        seconds, failed = self._self_time(unit, pod)
        span = self._identity(8)
        place = self._open(unit, pod, span, (caller, parent), start, operation)
        elapsed = seconds
        calls = graph.calls_of[unit]
        visits = graph.routes[self._route].visits[unit]
        for number in range(calls.start, calls.stop):
            edge = graph.edges[number]
            if failed or not edge.waits or self._left <= 0 or visits <= 0:
                continue
            usual = graph.routes[self._route].calls[number] / visits
            moved = history.per_request[number, step] / max(self._mix[number], 1e-12)
            count = min(usual * moved, 12.0)
            for _ in range(int(count) + int(rng.random() < count % 1)):
                took, broken = self._call(number, span, start + elapsed)
                elapsed += took
                if broken and rng.random() > edge.absorbs:
                    failed = True
                    break
        self._close(place, elapsed, failed)
        return elapsed, failed

    def _usual_mix(self) -> Floats:
        """Calls per request along each edge that the mix of routes alone would make at this
        step, without any lever; shape [edges]."""
        entering = self._world.entries[:, self._step]
        of_units = entering @ self._visits
        return np.asarray(entering @ self._calls / np.maximum(of_units[self._callers], 1e-12))

    def _call(self, number: int, parent: str, start: float) -> tuple[float, bool]:
        """(seconds the caller waits, whether it failed for good), retries included."""
        world, step, rng = self._world, self._step, self._rng
        edge = world.graph.edges[number]
        at = slice(step, step + 1)
        shorter = world.levers.get("deadline", number, at)
        more = world.levers.get("attempts", number, at)
        deadline = edge.deadline_s * (1.0 if shorter is None else float(shorter[0]))
        tries = edge.attempts * (1.0 if more is None else float(more[0]))
        waited = self._pool_wait(number)
        for _ in range(max(1, round(tries))):
            lost = rng.random() > world.history.arriving[number, step]
            if lost or self._left <= 0:
                if lost:
                    origin = (edge.caller, parent)
                    self._close(self._open_client(edge.callee, origin, start + waited), 0.004, True)
                waited += FAIL_FAST_S
                failed = lost
            else:
                late = self._delay(number)
                name = self._operation(edge.callee)
                begun = start + waited + late / 2
                took, failed = self._serve(edge.callee, edge.caller, parent, begun, name)
                took += late
                failed = failed or took > deadline
                waited += min(took, deadline)
            if not failed:
                return waited, False
        return waited, True

    def _pool_wait(self, number: int) -> float:
        used = self._world.history.pool_used[number, self._step]
        return float(self._rng.exponential(min(max(used - 0.7, 0.0), 3.0))) if used > 0.7 else 0.0

    def _delay(self, number: int) -> float:
        at = slice(self._step, self._step + 1)
        levers = self._world.levers
        delay = levers.get("delay_s", number, at)
        seconds = 0.0003 if delay is None else 0.0003 + float(delay[0])
        lost, pause = levers.get("lost", number, at), levers.get("lost_s", number, at)
        if lost is not None and pause is not None and self._rng.random() < lost[0]:
            seconds += float(pause[0])
        return seconds

    def _self_time(self, unit: int, pod: int) -> tuple[float, bool]:
        """(own seconds without calls, whether the unit itself fails the request)."""
        world, step, rng = self._world, self._step, self._rng
        graph, history = world.graph, world.history
        below, fine = 0.0, 1.0
        calls = graph.calls_of[unit]
        for number in range(calls.start, calls.stop):
            edge = graph.edges[number]
            if edge.waits:
                calls_per_request = history.attempts[number, step] / max(
                    history.rate[unit, step], 1e-9
                )
                below += calls_per_request * history.call_s[number, step]
        value = graph.units[unit]
        mean = max(history.usual_s[unit, step] - below, value.self_s)
        spread = np.log1p(value.spread**2)
        seconds = float(mean * np.exp(rng.normal(-spread / 2, np.sqrt(spread))))
        failing = value.failing + float(history.refused[unit, step])
        moved = world.levers.get("failing", unit, slice(step, step + 1))
        failing += 0.0 if moved is None else float(moved[0])
        for part in world.levers.parts.get(unit, []):
            if pod not in part.pods:
                continue
            # All requests at a bad replica, or a share of those at replicas that all have it.
            there = min(float(part.share[step]) * len(value.pods) / len(part.pods), 1.0)
            if rng.random() < there:
                seconds += float(part.slower_s[step]) * float(rng.lognormal(-0.1, 0.45))
                failing += float(part.failing[step])
        return seconds, bool(rng.random() < failing * fine)

    def _operation(self, unit: int) -> str:
        value = self._world.graph.units[unit]
        words = {
            UnitKind.DATABASE: "SELECT",
            UnitKind.CACHE: "GET",
            UnitKind.QUEUE: "publish",
        }
        return words.get(value.kind, f"{value.name}/handle")

    def _open(
        self,
        unit: int,
        pod: int,
        span: str,
        above: tuple[int | None, str | None],
        start: float,
        operation: str,
    ) -> int:
        """Adds a row and returns its place; -1 where neither side sends a span."""
        value = self._world.graph.units[unit]
        self._left -= 1
        if unit in self._conditions.silent or value.kind is UnitKind.EXTERNAL:
            return self._open_client(unit, above, start)
        labels = None
        if self._conditions.labels == "pod":
            labels = json.dumps(pod_labels(self._world, value.pods[pod]))
        return self._row(span, above[1], value.name, operation, start, labels)

    def _open_client(self, unit: int, above: tuple[int | None, str | None], start: float) -> int:
        """The caller's side of a call that the callee sends no span of."""
        caller, parent = above
        if caller is None or caller in self._conditions.silent:
            return -1
        peer = self._world.graph.units[unit].name
        labels = json.dumps({"peer.service": peer, "span.kind": "client"})
        service = self._world.graph.units[caller].name
        return self._row(self._identity(8), parent, service, f"call {peer}", start, labels)

    def _row(
        self,
        span: str,
        parent: str | None,
        service: str,
        operation: str,
        start: float,
        labels: str | None,
    ) -> int:
        made = self._columns
        made.trace.append(self._trace)
        made.span.append(span)
        made.parent.append(parent)
        made.service.append(service)
        made.operation.append(operation)
        made.start.append(int(start * 1e6) * 1000)
        made.duration.append(0.0)
        made.status.append("OK")
        made.attributes.append(labels)
        return len(made.trace) - 1

    def _close(self, place: int, seconds: float, failed: bool) -> None:
        if place >= 0:
            self._columns.duration[place] = float(round(seconds * 1e6))
            self._columns.status[place] = "ERROR" if failed else "OK"

    def _identity(self, size: int) -> str:
        return self._rng.bytes(size).hex()
