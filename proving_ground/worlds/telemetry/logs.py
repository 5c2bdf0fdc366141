"""The logs table: routine lines, harmless warnings, and what units say of failing calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from proving_ground.worlds.clock import STEP_S
from proving_ground.worlds.faults import FAULTS, Course, PlaceKind, SimulatedFault
from proving_ground.worlds.graph import Floats, UnitKind
from proving_ground.worlds.telemetry.conditions import Conditions
from proving_ground.worlds.telemetry.metrics import BILLION
from proving_ground.worlds.world import World

MOST_LINES = 12_000
ROUTINE = (
    "request completed in {ms} ms",
    "GET /items/{many} 200",
    "processed {many} records",
    "health check ok",
    "cache refreshed, {many} entries",
    "user {many} signed in",
)
WARNINGS = (
    "slow consumer of event stream, lag {ms} ms",
    "deprecated header used by client {many}",
    "retrying after optimistic lock conflict",
    "token of user {many} expired, refreshing",
    "response larger than {many} bytes",
    "failed to parse user agent",
)
CALL_LINES = {
    "late": (
        "context deadline exceeded calling {callee}",
        "request to {callee} timed out after {ms} ms",
        "java.net.SocketTimeoutException: Read timed out: {callee}",
    ),
    "certificate": (
        "x509: certificate has expired or is not yet valid: https://{callee}",
        "SSL handshake with {callee} failed: certificate has expired",
    ),
    "dns": (
        "dial tcp: lookup {callee}: no such host",
        "getaddrinfo ENOTFOUND {callee}",
    ),
    "refused": (
        "connection to {callee} reset by peer",
        "dial {callee}:8080: connection refused",
    ),
    "error": (
        "upstream {callee} returned 503",
        "call to {callee} failed: 500 Internal Server Error",
    ),
    "quota": (
        "{callee} returned 429 Too Many Requests",
        "rate limit of {callee} exceeded",
    ),
    "pool": (
        "timeout waiting for a connection to {callee} from the pool",
        "could not get a connection to {callee}: pool exhausted",
    ),
}
INTERNAL_ERRORS = ("request failed: internal error", "unhandled error while serving request")


@dataclass(frozen=True)
class _Line:
    seconds: float
    unit: int
    level: str
    text: str


def logs_table(world: World, conditions: Conditions, since: int) -> pl.DataFrame:
    """time, service, message, level, attributes; from step `since` to the window's end."""
    if not conditions.logs:
        return pl.DataFrame()
    lines = list(_LogWriter(world, conditions, since).lines())
    if len(lines) > MOST_LINES:
        rng = world.seed.generator("cut logs")
        choice = np.sort(rng.choice(len(lines), MOST_LINES, replace=False))
        lines = [lines[int(n)] for n in choice]
    if not lines:
        return pl.DataFrame()
    start = world.clock.start_s
    times = [start * BILLION + int(line.seconds * 1000) * (BILLION // 1000) for line in lines]
    table = pl.DataFrame(
        {
            "time": pl.Series(times, dtype=pl.Int64),
            "service": [world.graph.units[line.unit].name for line in lines],
            "message": [line.text for line in lines],
            "level": [line.level for line in lines],
        }
    )
    instant = pl.col("time").cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
    return table.with_columns(instant).sort("time", "service", "message")


class _LogWriter:
    def __init__(self, world: World, conditions: Conditions, since: int) -> None:
        self._world = world
        self._conditions = conditions
        self._since = since
        self._until = world.window[1]

    def lines(self) -> Iterator[_Line]:
        """Lines of every unit that logs; databases and caches often do not."""
        for unit, value in enumerate(self._world.graph.units):
            rng = self._world.seed.generator("logs", unit)
            store = value.kind in (UnitKind.DATABASE, UnitKind.CACHE, UnitKind.QUEUE)
            quiet = rng.random() < (0.5 if store else 0.05)
            outside = value.kind is UnitKind.EXTERNAL
            if quiet or outside or unit in self._conditions.silent:
                continue
            yield from self._usual(unit, rng)
            yield from self._internal_failures(unit, rng)
            yield from self._failing_calls(unit, rng)
            yield from self._state(unit, rng)

    def _usual(self, unit: int, rng: np.random.Generator) -> Iterator[_Line]:
        steps = self._until - self._since
        share = self._world.counts.arrived[unit][self._since : self._until].mean()
        per_unit = 6000 / len(self._world.graph.units)
        routine = int(rng.poisson(min(steps * min(share, 3.0) * 0.3, per_unit)))
        texts = [str(t) for t in rng.choice(ROUTINE, size=2)]
        for step in rng.uniform(self._since, self._until, routine):
            text = texts[int(rng.random() < 0.3)]
            yield self._line(rng, step, unit, "INFO", text)
        warning = str(rng.choice(WARNINGS))
        for step in rng.uniform(self._since, self._until, rng.poisson(rng.exponential(8.0))):
            level = "ERROR" if rng.random() < 0.2 else "WARN"
            yield self._line(rng, step, unit, level, warning)

    def _internal_failures(self, unit: int, rng: np.random.Generator) -> Iterator[_Line]:
        """Failures of the unit's own doing: those that no call explains."""
        world = self._world
        moved = world.levers.get("failing", unit, slice(0, world.clock.steps))
        share = np.full(world.clock.steps, world.graph.units[unit].failing)
        if moved is not None:
            share = share + moved
        for part in world.levers.parts.get(unit, []):
            share = share + part.share * part.failing
        text = str(rng.choice(INTERNAL_ERRORS))
        for kind, _ in self._troubles_of(unit):
            # An unhandled exception is a new line; a broken database says so in `_state`.
            if kind.lines and unit not in self._stores():
                text = str(rng.choice(kind.lines))
        yield from self._sampled(unit, world.counts.arrived[unit] * share, text, rng)

    def _failing_calls(self, unit: int, rng: np.random.Generator) -> Iterator[_Line]:
        world = self._world
        graph, history = world.graph, world.history
        calls = graph.calls_of[unit]
        for number in range(calls.start, calls.stop):
            edge = graph.edges[number]
            if not edge.waits:
                continue
            callee = graph.units[edge.callee].name
            called = world.counts.called[number]
            lost = 1 - history.arriving[number]
            late = history.timing_out[number]
            crowded = np.maximum(0, 1 - 1 / np.maximum(history.pool_used[number], 1))
            failed = history.failing[edge.callee] * (1 - late)
            reasons = (
                (self._symptom(edge.callee, number), called * lost),
                ("late", called * (1 - lost) * late),
                ("pool", called * crowded),
                ("quota" if self._is("quota", edge.callee) else "error", called * failed),
            )
            for reason, expected in reasons:
                text = str(rng.choice(CALL_LINES[reason])).replace("{callee}", callee)
                yield from self._sampled(unit, expected, text, rng)

    def _symptom(self, callee: int, number: int) -> str:
        """How callers see a call that never arrives."""
        for word in ("certificate", "dns"):
            if self._is(word, callee):
                return word
        for bystander in self._world.bystanders:
            if bystander.subject == self._world.graph.units[callee].name:
                words = {"expired_certificate": "certificate", "dns_failure": "dns"}
                return words.get(bystander.fault, "refused")
        return "refused"

    def _is(self, symptom: str, unit: int) -> bool:
        fault = self._world.fault
        if fault is None or fault.kind.place is not PlaceKind.UNIT:
            return False
        return fault.kind.symptom == symptom and fault.target == unit

    def _stores(self) -> list[int]:
        return self._world.graph.of_kind(UnitKind.DATABASE, UnitKind.CACHE, UnitKind.QUEUE)

    def _state(self, unit: int, rng: np.random.Generator) -> Iterator[_Line]:
        """What a faulty unit says of its state, at most a few lines a minute. Bystanders say it
        too: an error line alone makes no culprit."""
        for kind, active in self._troubles_of(unit):
            if kind.lines and rng.random() < 0.7:
                text = str(rng.choice(kind.lines))
                expected = np.asarray(active * rng.uniform(0.2, 3.0))
                yield from self._sampled(unit, expected, text, rng)

    def _troubles_of(self, unit: int) -> Iterator[tuple[SimulatedFault, Floats]]:
        """(kind, 1 while it shows) of the fault and of bystanders at a unit."""
        world = self._world
        fault = world.fault
        if fault is not None and fault.kind.place is PlaceKind.UNIT and fault.target == unit:
            slow_onset = Course.RAMP in fault.kind.courses
            yield fault.kind, (fault.course >= (0.7 if slow_onset else 0.3)).astype(np.float64)
        for bystander in world.bystanders:
            if bystander.subject == world.graph.units[unit].name:
                end = world.clock.steps if bystander.ends is None else bystander.ends
                yield FAULTS[bystander.fault], world.clock.between(bystander.begins, end)

    def _sampled(
        self, unit: int, expected: Floats, text: str, rng: np.random.Generator
    ) -> Iterator[_Line]:
        """Lines at the steps where something is expected; bursts are cut at 3 per step."""
        part = expected[self._since : self._until] * self._conditions.log_errors_share
        counts = np.minimum(rng.poisson(np.minimum(part, 50.0)), 3)
        for offset in np.flatnonzero(counts):
            for _ in range(int(counts[offset])):
                step = self._since + int(offset) + rng.random()
                yield self._line(rng, step, unit, "ERROR", text)

    def _line(
        self, rng: np.random.Generator, step: float, unit: int, level: str, text: str
    ) -> _Line:
        if "{" in text:
            ms, many = int(rng.lognormal(4, 1)) + 1, int(rng.integers(1, 100000))
            text = text.replace("{ms}", str(ms)).replace("{many}", str(many))
            text = text.replace("{pid}", str(many))
        return _Line(step * STEP_S, unit, level, text)
