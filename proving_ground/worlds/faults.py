"""Every kind of fault: what it can hit, how it acts on the system, and what it leaves behind.

A new fault is one function that moves levers and one row of `FAULTS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from proving_ground.worlds.clock import STEP_S, Clock
from proving_ground.worlds.graph import Floats, Graph, UnitKind
from proving_ground.worlds.levers import Levers, Part

K = UnitKind
OURS = (K.FRONT, K.SERVICE)
SERVED = (K.SERVICE, K.DATABASE, K.CACHE, K.EXTERNAL)


class Course(StrEnum):
    """How a fault sets in."""

    SUDDEN = "sudden"
    ROLL_OUT = "roll_out"
    RAMP = "ramp"


class PlaceKind(StrEnum):
    """What a fault hits."""

    UNIT = "unit"
    MACHINE = "machine"
    ZONE = "zone"
    CLUSTER = "cluster"


@dataclass(frozen=True)
class Injection:
    """One fault about to be applied. `course` is 0 before it, up to 1 at full strength, shape
    [steps]; `target` is a unit, or a machine for faults of places; `edge` a call that it is about.
    """

    graph: Graph
    clock: Clock
    rng: np.random.Generator
    levers: Levers
    target: int
    edge: int | None
    course: Floats
    strength: float

    def factor(self, low: float, high: float) -> Floats:
        """1 before the fault, up to a log-uniform draw at full strength."""
        full = np.exp(self.rng.uniform(np.log(low), np.log(high)))
        return np.asarray(1 + (1 + (full - 1) * self.strength - 1) * self.course)

    def shrink(self, low: float, high: float) -> Floats:
        """1 before the fault, down to a log-uniform draw at full strength."""
        full = np.exp(self.rng.uniform(np.log(low), np.log(high))) / self.strength
        return np.asarray(1 + (min(full, 1.0) - 1) * self.course)

    def share(self, low: float, high: float) -> Floats:
        """0 before the fault, up to a uniform draw, at most 1."""
        return np.asarray(np.minimum(self.rng.uniform(low, high) * self.strength, 1) * self.course)

    def seconds(self, low: float, high: float) -> Floats:
        """0 before the fault, up to a log-uniform draw."""
        full = np.exp(self.rng.uniform(np.log(low), np.log(high)))
        return np.asarray(full * self.strength * self.course)

    def calls_to(self) -> tuple[int, ...]:
        """The edges that end at the target."""
        return self.graph.callers_of[self.target]

    def own_edge(self) -> int:
        """The call that the fault is about."""
        assert self.edge is not None
        return self.edge


@dataclass(frozen=True)
class FaultKind:
    """One row: `acts` moves the levers.

    `changed` is the share of cases in which a change did it, `change_kinds` of which kind,
    `theme` what such a change is about, `wants_edge` says which callee's kind the fault's own call
    must have, `seen` is how callers report it, `lines` what the unit itself logs.
    """

    name: str
    hits: tuple[UnitKind, ...]
    acts: Callable[[Injection], None]
    courses: tuple[Course, ...] = (Course.SUDDEN,)
    changed: float = 0.0
    change_kinds: tuple[str, ...] = ("deploy",)
    theme: str = "code"
    place: PlaceKind = PlaceKind.UNIT
    wants_edge: UnitKind | None = None
    wants_cache: bool = False
    least_pods: int = 1
    seen: str = "error"
    lines: tuple[str, ...] = ()


def _slow_code(it: Injection) -> None:
    it.levers.move("work", it.target, it.factor(2.5, 8))


def _n_plus_one(it: Injection) -> None:
    it.levers.move("calls", it.own_edge(), it.factor(12, 50))


def _slow_queries(it: Injection) -> None:
    it.levers.move("cost", it.own_edge(), it.factor(8, 40))


def _lock(it: Injection) -> None:
    it.levers.move("stall_s", it.target, it.seconds(0.3, 4))
    it.levers.move("failing", it.target, it.share(0.02, 0.3))


def _small_pool(it: Injection) -> None:
    edge = it.graph.edges[it.own_edge()]
    # A pool of 5 of 40 is the usual mistake; large pools must shrink more before anyone waits.
    it.levers.move("pool", it.own_edge(), it.shrink(0.4 / edge.pool, 1.2 / edge.pool))


def _leaking_pool(it: Injection) -> None:
    left = np.clip(1 - it.course * it.rng.uniform(1.0, 1.1), 0.001, 1)
    it.levers.move("pool", it.own_edge(), left)


def _starved(it: Injection) -> None:
    it.levers.move("capacity", it.target, it.shrink(0.08, 0.3))


def _leak(it: Injection) -> None:
    """Memory rises, the collector slows everything down, then replicas are killed one by one."""
    unit = it.graph.units[it.target]
    period = int(it.rng.uniform(40, 120))
    begun = int(np.argmax(it.course > 0)) if it.course.any() else it.clock.steps
    first = begun + int(np.count_nonzero((it.course > 0) & (it.course < 1)))
    numbers = np.arange(it.clock.steps)
    since = np.where(numbers >= first, (numbers - first) % period / period, 0.0)
    # After the first kill each replica fills again; the fleet is spread over the period.
    memory = np.where(numbers < first, it.course, 0.45 + 0.5 * since)
    it.levers.move("memory", it.target, 0.6 * memory * (it.course > 0))
    pressure = np.clip((memory - 0.6) / 0.4, 0, 1) * (it.course > 0)
    it.levers.move("work", it.target, 1 + it.rng.uniform(2, 6) * it.strength * pressure)
    killed = ((numbers >= first) & ((numbers - first) % period == 0)).astype(float)
    it.levers.move("restarts", it.target, killed * len(unit.pods))
    down = (numbers >= first) & ((numbers - first) % period < 6)
    share = np.minimum(it.rng.uniform(0.15, 0.5) * it.strength, 1) * down * (it.course > 0)
    it.levers.move("failing", it.target, share)


def _pauses(it: Injection) -> None:
    unit = it.target
    pods = frozenset(range(len(it.graph.units[unit].pods)))
    share, slower = it.share(0.06, 0.3), it.seconds(0.4, 3)
    it.levers.add_part(Part(unit, share, slower, np.zeros(it.clock.steps), pods))
    it.levers.move("memory", unit, 0.2 * it.course)


def _full_disk(it: Injection) -> None:
    it.levers.move("disk", it.target, 0.55 * it.course)
    full = (it.course >= 1).astype(float)
    it.levers.move("failing", it.target, it.rng.uniform(0.3, 0.9) * full)


def _flush(it: Injection) -> None:
    """Everything misses at once; what is read again comes back within the hour."""
    begun = int(np.argmax(it.course > 0)) if it.course.any() else it.clock.steps
    age = np.maximum(np.arange(it.clock.steps) - begun, 0) * STEP_S
    empty = np.exp(-age / it.rng.uniform(1200, 4000)) * (it.course > 0)
    for number, edge in enumerate(it.graph.edges):
        if edge.cache == it.target:
            misses = edge.miss + (1 - edge.miss) * empty
            it.levers.move("miss", number, misses / edge.miss)


def _short_lifetime(it: Injection) -> None:
    edge = it.graph.edges[it.own_edge()]
    misses = np.minimum(edge.miss * it.factor(4, 12), 1.0)
    it.levers.move("miss", it.own_edge(), misses / edge.miss)


def _impatient(it: Injection) -> None:
    """A time-out below what the callee needs, and more tries: load on the callee multiplies."""
    it.levers.move("deadline", it.own_edge(), it.shrink(0.03, 0.1))
    it.levers.move("attempts", it.own_edge(), 1 + it.course * it.rng.integers(2, 6))


def _unreachable(low: float, high: float) -> Callable[[Injection], None]:
    def act(it: Injection) -> None:
        share = it.share(low, high)
        for number in it.calls_to():
            it.levers.move("unreached", number, share)

    return act


def _delay(it: Injection) -> None:
    seconds = it.seconds(0.08, 1.0)
    for number in it.calls_to():
        it.levers.move("delay_s", number, seconds)


def _loss(it: Injection) -> None:
    share, seconds = it.share(0.08, 0.4), it.seconds(0.25, 1.5)
    for number in it.calls_to():
        it.levers.move("lost", number, share)
        it.levers.move("lost_s", number, seconds)
        it.levers.move("unreached", number, share * 0.15)


def _stuck(it: Injection) -> None:
    it.levers.move("capacity", it.target, it.shrink(0.005, 0.15))


def _one_replica(it: Injection) -> None:
    pods = len(it.graph.units[it.target].pods)
    bad = int(it.rng.integers(pods))
    share = np.full(it.clock.steps, 1 / pods) * (it.course > 0)
    slower, failing = _slow_or_failing(it)
    it.levers.add_part(Part(it.target, share, slower, failing, frozenset({bad})))


def _some_requests(it: Injection) -> None:
    """A version or flag that is wrong for part of the requests, at all replicas that have it."""
    pods = frozenset(range(len(it.graph.units[it.target].pods)))
    slower, failing = _slow_or_failing(it)
    it.levers.add_part(Part(it.target, it.share(0.15, 0.9), slower, failing, pods))


def _slow_or_failing(it: Injection) -> tuple[Floats, Floats]:
    nothing = np.zeros(it.clock.steps)
    if it.rng.random() < 0.4:
        return it.seconds(0.3, 3), nothing
    return nothing, it.share(0.3, 1.0)


def _wrong_setting(it: Injection) -> None:
    it.levers.move("failing", it.target, it.share(0.15, 0.95))


def _outage(it: Injection) -> None:
    if it.rng.random() < 0.5:
        it.levers.move("failing", it.target, it.share(0.2, 1.0))
    else:
        it.levers.move("stall_s", it.target, it.seconds(1.0, 20.0))


def _quota(it: Injection) -> None:
    """Part of the calls is turned away at once."""
    it.levers.move("failing", it.target, it.share(0.1, 0.7))


def _surge(it: Injection) -> None:
    factor = it.factor(2.0, 5.0)
    for number, route in enumerate(it.graph.routes):
        if route.front == it.target and not route.rare:
            it.levers.move("load", number, factor)


def _place(it: Injection, machines: set[int]) -> None:
    slower, failing = _slow_or_failing(it)
    for unit, share in it.graph.shares_on(machines):
        pods = it.graph.units[unit].pods
        bad = frozenset(n for n, pod in enumerate(pods) if pod.machine in machines)
        there = np.full(it.clock.steps, share) * (it.course > 0)
        it.levers.add_part(Part(unit, there, slower, failing, bad))


def _bad_machine(it: Injection) -> None:
    _place(it, {it.target})


def _bad_zone(it: Injection) -> None:
    zone = it.graph.machines[it.target].zone
    _place(it, {n for n, one in enumerate(it.graph.machines) if one.zone == zone})


def _bad_cluster(it: Injection) -> None:
    cluster = it.graph.machines[it.target].cluster
    _place(it, {n for n, one in enumerate(it.graph.machines) if one.cluster == cluster})


def _neighbour(it: Injection) -> None:
    """A foreign job takes the machine's CPU: everything else on it takes a multiple of its time."""
    times = it.rng.uniform(3, 15) * it.strength
    for unit, share in it.graph.shares_on({it.target}):
        value = it.graph.units[unit]
        bad = frozenset(n for n, pod in enumerate(value.pods) if pod.machine == it.target)
        there = np.full(it.clock.steps, share) * (it.course > 0)
        # Throttled work also queues: a tenth of a second is the CFS period.
        slower = it.course * (value.own_s * times + 0.1 * it.strength)
        it.levers.add_part(Part(unit, there, slower, np.zeros(it.clock.steps), bad))


_QUICK = (Course.SUDDEN,)
_ROLLED = (Course.ROLL_OUT, Course.SUDDEN)

FAULTS: dict[str, FaultKind] = {
    kind.name: kind
    for kind in (
        FaultKind("slow_code", (*OURS, K.WORKER), _slow_code, _ROLLED, 1.0, seen="slow"),
        FaultKind(
            "n_plus_one",
            OURS,
            _n_plus_one,
            _ROLLED,
            1.0,
            theme="query",
            wants_edge=K.DATABASE,
            seen="slow",
        ),
        FaultKind(
            "slow_queries",
            (K.DATABASE,),
            _slow_queries,
            (*_QUICK, Course.RAMP),
            0.4,
            ("migration",),
            "schema",
            wants_edge=K.DATABASE,
            seen="slow",
            lines=("slow query: {ms} ms, rows examined {many}", "duration: {ms} ms statement"),
        ),
        FaultKind(
            "database_lock",
            (K.DATABASE,),
            _lock,
            _QUICK,
            0.4,
            ("migration",),
            "schema",
            seen="slow",
            lines=("process {pid} still waiting for ShareLock on relation", "deadlock detected"),
        ),
        FaultKind(
            "pool_too_small",
            OURS,
            _small_pool,
            _ROLLED,
            1.0,
            ("config", "deploy"),
            "pool",
            wants_edge=K.DATABASE,
            seen="pool",
            lines=("connection pool exhausted: timeout waiting for idle connection after 3000ms",),
        ),
        FaultKind(
            "connection_leak",
            OURS,
            _leaking_pool,
            (Course.RAMP,),
            0.7,
            ("deploy",),
            "pool",
            wants_edge=K.DATABASE,
            seen="pool",
            lines=("unable to acquire connection from pool: all connections in use",),
        ),
        FaultKind(
            "cpu_starved",
            (*OURS, K.DATABASE, K.CACHE),
            _starved,
            _QUICK,
            0.5,
            ("config",),
            "resources",
            seen="slow",
            lines=("event loop blocked for {ms} ms",),
        ),
        FaultKind(
            "memory_leak",
            OURS,
            _leak,
            (Course.RAMP,),
            0.7,
            ("deploy",),
            "memory",
            seen="refused",
            lines=(
                "java.lang.OutOfMemoryError: Java heap space",
                "container killed: OOMKilled, exit code 137",
            ),
        ),
        FaultKind(
            "gc_pauses",
            OURS,
            _pauses,
            _ROLLED,
            0.5,
            ("deploy", "config"),
            "memory",
            seen="slow",
            lines=("GC pause (G1 Evacuation Pause) {ms}ms exceeded target",),
        ),
        FaultKind(
            "disk_full",
            (K.DATABASE, K.QUEUE),
            _full_disk,
            (Course.RAMP,),
            seen="error",
            lines=("could not extend file: No space left on device",),
        ),
        FaultKind(
            "cache_flush",
            (K.CACHE,),
            _flush,
            _QUICK,
            0.3,
            ("deploy", "config"),
            "cache",
            seen="slow",
            lines=("all keys dropped", "server started, dataset empty"),
        ),
        FaultKind(
            "cache_lifetime",
            OURS,
            _short_lifetime,
            _ROLLED,
            1.0,
            ("config", "deploy"),
            "cache",
            wants_edge=K.DATABASE,
            wants_cache=True,
            seen="slow",
        ),
        FaultKind(
            "retry_storm",
            OURS,
            _impatient,
            _ROLLED,
            1.0,
            ("config", "deploy"),
            "timeouts",
            wants_edge=K.SERVICE,
            seen="slow",
        ),
        FaultKind("expired_certificate", SERVED, _unreachable(0.9, 1.0), seen="certificate"),
        FaultKind(
            "dns_failure",
            SERVED,
            _unreachable(0.3, 1.0),
            _QUICK,
            0.2,
            ("config",),
            "network",
            seen="dns",
        ),
        FaultKind("packet_delay", SERVED, _delay, seen="slow"),
        FaultKind("packet_loss", SERVED, _loss, seen="refused"),
        FaultKind(
            "stuck_consumer",
            (K.WORKER,),
            _stuck,
            _QUICK,
            0.5,
            seen="slow",
            lines=("processing failed, will be redelivered: poison message at offset {many}",),
        ),
        FaultKind("bad_replica", OURS, _one_replica, least_pods=2, seen="error"),
        FaultKind(
            "bad_version",
            OURS,
            _some_requests,
            (Course.ROLL_OUT,),
            1.0,
            seen="error",
            lines=("unhandled exception: NullPointerException", "panic: index out of range"),
        ),
        FaultKind("bad_machine", (), _bad_machine, place=PlaceKind.MACHINE, seen="error"),
        FaultKind("bad_zone", (), _bad_zone, place=PlaceKind.ZONE, seen="error"),
        FaultKind("bad_cluster", (), _bad_cluster, place=PlaceKind.CLUSTER, seen="error"),
        FaultKind("noisy_neighbour", (), _neighbour, place=PlaceKind.MACHINE, seen="slow"),
        FaultKind("external_outage", (K.EXTERNAL,), _outage, (*_QUICK, Course.RAMP), seen="error"),
        FaultKind(
            "bad_flag",
            OURS,
            _some_requests,
            _QUICK,
            1.0,
            ("flag",),
            "flag",
            seen="error",
            lines=("unhandled exception: KeyError", "validation failed: unexpected value"),
        ),
        FaultKind(
            "bad_config",
            (*OURS, K.WORKER),
            _wrong_setting,
            _ROLLED,
            1.0,
            ("config",),
            "network",
            seen="error",
            lines=("invalid configuration value, falling back failed",),
        ),
        FaultKind(
            "quota_reached",
            (K.EXTERNAL,),
            _quota,
            (*_QUICK, Course.RAMP),
            seen="quota",
        ),
        FaultKind("traffic_surge", (K.FRONT,), _surge, (*_QUICK, Course.RAMP), seen="slow"),
    )
}


def targets_of(kind: FaultKind, graph: Graph) -> list[tuple[int, int | None]]:
    """All (target, edge) that the fault can hit in this system; empty when there is none."""
    if kind.place is not PlaceKind.UNIT:
        return _places(kind, graph)
    found: list[tuple[int, int | None]] = []
    for unit in graph.of_kind(*kind.hits):
        if len(graph.units[unit].pods) < kind.least_pods or not _in_use(graph, unit):
            continue
        if kind.wants_edge is None:
            if unit and kind.hits == SERVED and not graph.callers_of[unit]:
                continue
            found.append((unit, None))
        elif kind.name == "slow_queries":
            found.extend((unit, number) for number in graph.callers_of[unit])
        else:
            found.extend((unit, number) for number in _wanted_calls(kind, graph, unit))
    return found


def course_of(
    course: Course, rng: np.random.Generator, clock: Clock, begin: int, end: int | None
) -> Floats:
    """The fault's strength over time, 0 to 1; shape [steps]."""
    steps = {
        Course.SUDDEN: rng.integers(1, 4),
        Course.ROLL_OUT: rng.integers(4, 24),
        Course.RAMP: rng.integers(60, 400),
    }[course]
    values = clock.ramp(begin, int(steps))
    if end is not None:
        values = values * (1 - clock.ramp(end, int(rng.integers(2, 10))))
    return values


def _places(kind: FaultKind, graph: Graph) -> list[tuple[int, int | None]]:
    if kind.place is PlaceKind.CLUSTER and len({m.cluster for m in graph.machines}) < 2:
        return []
    found: list[tuple[int, int | None]] = []
    for number in range(len(graph.machines)):
        # One unit's only replica on a machine is that unit's trouble, not the machine's.
        if len(list(graph.shares_on({number}))) >= 2:
            found.append((number, None))
    return found


def _in_use(graph: Graph, unit: int) -> bool:
    return any(route.visits[unit] > 0 for route in graph.routes)


def _wanted_calls(kind: FaultKind, graph: Graph, unit: int) -> list[int]:
    calls = graph.calls_of[unit]
    found = []
    for number in range(calls.start, calls.stop):
        edge = graph.edges[number]
        if graph.units[edge.callee].kind is not kind.wants_edge:
            continue
        if kind.wants_cache and edge.cache < 0:
            continue
        if any(route.calls[number] > 0 for route in graph.routes):
            found.append(number)
    return found
