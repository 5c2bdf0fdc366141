"""Every kind of fault: what it can hit, how it acts on the system, and what it leaves behind.

A new fault is one function of `fault_actions.py` that moves levers and one row of `FAULTS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from proving_ground.worlds import fault_actions as acts
from proving_ground.worlds.clock import WorldClock
from proving_ground.worlds.graph import Floats, Graph, UnitKind

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
class SimulatedFault:
    """One row: `acts` moves the levers.

    `changed` is the share of cases in which a change did it, `change_kinds` of which kind,
    `theme` what such a change is about, `wants_edge` says which callee's kind the fault's own call
    must have, `symptom` is how callers report it, `lines` what the unit itself logs.
    """

    name: str
    hits: tuple[UnitKind, ...]
    acts: Callable[[acts.Injection], None]
    courses: tuple[Course, ...] = (Course.SUDDEN,)
    changed: float = 0.0
    change_kinds: tuple[str, ...] = ("deploy",)
    theme: str = "code"
    place: PlaceKind = PlaceKind.UNIT
    wants_edge: UnitKind | None = None
    wants_cache: bool = False
    least_pods: int = 1
    symptom: str = "error"
    lines: tuple[str, ...] = ()


_QUICK = (Course.SUDDEN,)
_ROLLED = (Course.ROLL_OUT, Course.SUDDEN)

FAULTS: dict[str, SimulatedFault] = {
    kind.name: kind
    for kind in (
        SimulatedFault(
            "slow_code", (*OURS, K.WORKER), acts.slow_code, _ROLLED, 1.0, symptom="slow"
        ),
        SimulatedFault(
            "n_plus_one",
            OURS,
            acts.n_plus_one,
            _ROLLED,
            1.0,
            theme="query",
            wants_edge=K.DATABASE,
            symptom="slow",
        ),
        SimulatedFault(
            "slow_queries",
            (K.DATABASE,),
            acts.slow_queries,
            (*_QUICK, Course.RAMP),
            0.4,
            ("migration",),
            "schema",
            wants_edge=K.DATABASE,
            symptom="slow",
            lines=("slow query: {ms} ms, rows examined {many}", "duration: {ms} ms statement"),
        ),
        SimulatedFault(
            "database_lock",
            (K.DATABASE,),
            acts.lock,
            _QUICK,
            0.4,
            ("migration",),
            "schema",
            symptom="slow",
            lines=("process {pid} still waiting for ShareLock on relation", "deadlock detected"),
        ),
        SimulatedFault(
            "pool_too_small",
            OURS,
            acts.small_pool,
            _ROLLED,
            1.0,
            ("config", "deploy"),
            "pool",
            wants_edge=K.DATABASE,
            symptom="pool",
            lines=("connection pool exhausted: timeout waiting for idle connection after 3000ms",),
        ),
        SimulatedFault(
            "connection_leak",
            OURS,
            acts.leaking_pool,
            (Course.RAMP,),
            0.7,
            ("deploy",),
            "pool",
            wants_edge=K.DATABASE,
            symptom="pool",
            lines=("unable to acquire connection from pool: all connections in use",),
        ),
        SimulatedFault(
            "cpu_starved",
            (*OURS, K.DATABASE, K.CACHE),
            acts.starved,
            _QUICK,
            0.5,
            ("config",),
            "resources",
            symptom="slow",
            lines=("event loop blocked for {ms} ms",),
        ),
        SimulatedFault(
            "memory_leak",
            OURS,
            acts.leak,
            (Course.RAMP,),
            0.7,
            ("deploy",),
            "memory",
            symptom="refused",
            lines=(
                "java.lang.OutOfMemoryError: Java heap space",
                "container killed: OOMKilled, exit code 137",
            ),
        ),
        SimulatedFault(
            "gc_pauses",
            OURS,
            acts.pauses,
            _ROLLED,
            0.5,
            ("deploy", "config"),
            "memory",
            symptom="slow",
            lines=("GC pause (G1 Evacuation Pause) {ms}ms exceeded target",),
        ),
        SimulatedFault(
            "disk_full",
            (K.DATABASE, K.QUEUE),
            acts.full_disk,
            (Course.RAMP,),
            symptom="error",
            lines=("could not extend file: No space left on device",),
        ),
        SimulatedFault(
            "cache_flush",
            (K.CACHE,),
            acts.flush,
            _QUICK,
            0.3,
            ("deploy", "config"),
            "cache",
            symptom="slow",
            lines=("all keys dropped", "server started, dataset empty"),
        ),
        SimulatedFault(
            "cache_lifetime",
            OURS,
            acts.short_lifetime,
            _ROLLED,
            1.0,
            ("config", "deploy"),
            "cache",
            wants_edge=K.DATABASE,
            wants_cache=True,
            symptom="slow",
        ),
        SimulatedFault(
            "retry_storm",
            OURS,
            acts.impatient,
            _ROLLED,
            1.0,
            ("config", "deploy"),
            "timeouts",
            wants_edge=K.SERVICE,
            symptom="slow",
        ),
        SimulatedFault(
            "expired_certificate", SERVED, acts.unreachable(0.9, 1.0), symptom="certificate"
        ),
        SimulatedFault(
            "dns_failure",
            SERVED,
            acts.unreachable(0.3, 1.0),
            _QUICK,
            0.2,
            ("config",),
            "network",
            symptom="dns",
        ),
        SimulatedFault("packet_delay", SERVED, acts.delay, symptom="slow"),
        SimulatedFault("packet_loss", SERVED, acts.loss, symptom="refused"),
        SimulatedFault(
            "stuck_consumer",
            (K.WORKER,),
            acts.stuck,
            _QUICK,
            0.5,
            symptom="slow",
            lines=("processing failed, will be redelivered: poison message at offset {many}",),
        ),
        SimulatedFault("bad_replica", OURS, acts.bad_replica, least_pods=2, symptom="error"),
        SimulatedFault(
            "bad_version",
            OURS,
            acts.some_requests,
            (Course.ROLL_OUT,),
            1.0,
            symptom="error",
            lines=("unhandled exception: NullPointerException", "panic: index out of range"),
        ),
        SimulatedFault(
            "bad_machine", (), acts.bad_machine, place=PlaceKind.MACHINE, symptom="error"
        ),
        SimulatedFault("bad_zone", (), acts.bad_zone, place=PlaceKind.ZONE, symptom="error"),
        SimulatedFault(
            "bad_cluster", (), acts.bad_cluster, place=PlaceKind.CLUSTER, symptom="error"
        ),
        SimulatedFault(
            "noisy_neighbour", (), acts.neighbour, place=PlaceKind.MACHINE, symptom="slow"
        ),
        SimulatedFault(
            "external_outage", (K.EXTERNAL,), acts.outage, (*_QUICK, Course.RAMP), symptom="error"
        ),
        SimulatedFault(
            "bad_flag",
            OURS,
            acts.some_requests,
            _QUICK,
            1.0,
            ("flag",),
            "flag",
            symptom="error",
            lines=("unhandled exception: KeyError", "validation failed: unexpected value"),
        ),
        SimulatedFault(
            "bad_config",
            (*OURS, K.WORKER),
            acts.wrong_setting,
            _ROLLED,
            1.0,
            ("config",),
            "network",
            symptom="error",
            lines=("invalid configuration value, falling back failed",),
        ),
        SimulatedFault(
            "quota_reached",
            (K.EXTERNAL,),
            acts.quota,
            (*_QUICK, Course.RAMP),
            symptom="quota",
        ),
        SimulatedFault(
            "traffic_surge", (K.FRONT,), acts.surge, (*_QUICK, Course.RAMP), symptom="slow"
        ),
    )
}


def targets_of(kind: SimulatedFault, graph: Graph) -> list[tuple[int, int | None]]:
    """All (target, edge) that the fault can hit in this system; empty when there is none."""
    if kind.place is not PlaceKind.UNIT:
        return _places(kind, graph)
    targets: list[tuple[int, int | None]] = []
    for unit in graph.of_kind(*kind.hits):
        if len(graph.units[unit].pods) < kind.least_pods or not _in_use(graph, unit):
            continue
        if kind.wants_edge is None:
            if unit and kind.hits == SERVED and not graph.callers_of[unit]:
                continue
            targets.append((unit, None))
        elif kind.name == "slow_queries":
            targets.extend((unit, number) for number in graph.callers_of[unit])
        else:
            targets.extend((unit, number) for number in _eligible_calls(kind, graph, unit))
    return targets


def course_of(
    course: Course, rng: np.random.Generator, clock: WorldClock, begin: int, end: int | None
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


def _places(kind: SimulatedFault, graph: Graph) -> list[tuple[int, int | None]]:
    if kind.place is PlaceKind.CLUSTER and len({m.cluster for m in graph.machines}) < 2:
        return []
    places: list[tuple[int, int | None]] = []
    for number in range(len(graph.machines)):
        # One unit's only replica on a machine is that unit's trouble, not the machine's.
        if len(list(graph.shares_on({number}))) >= 2:
            places.append((number, None))
    return places


def _in_use(graph: Graph, unit: int) -> bool:
    return any(route.visits[unit] > 0 for route in graph.routes)


def _eligible_calls(kind: SimulatedFault, graph: Graph, unit: int) -> list[int]:
    calls = graph.calls_of[unit]
    numbers = []
    for number in range(calls.start, calls.stop):
        edge = graph.edges[number]
        if graph.units[edge.callee].kind is not kind.wants_edge:
            continue
        if kind.wants_cache and edge.cache < 0:
            continue
        if any(route.calls[number] > 0 for route in graph.routes):
            numbers.append(number)
    return numbers
