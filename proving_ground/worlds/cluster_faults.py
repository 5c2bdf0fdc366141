"""Faults that a cluster's objects show: how each acts on the system. What the objects then look
like is in `proving_ground.worlds.cluster`.

They stand apart from `FAULTS`, from which the worlds of a seed are drawn, so that those stay as
they are, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from proving_ground.worlds import fault_actions as acts
from proving_ground.worlds.fault_actions import Injection
from proving_ground.worlds.faults import FAULTS, Course, PlaceKind, SimulatedFault
from proving_ground.worlds.graph import UnitKind
from proving_ground.worlds.levers import Part

K = UnitKind
CALLED = (K.SERVICE, K.DATABASE, K.CACHE)
OURS = (K.FRONT, K.SERVICE)
SUDDEN = (Course.SUDDEN,)


def cut_off(it: Injection) -> None:
    """Nobody reaches it."""
    acts.unreachable(0.95, 1.0)(it)


def partly_cut_off(it: Injection) -> None:
    """Some callers, or some tries, do not reach it."""
    acts.unreachable(0.35, 0.9)(it)


def fewer_instances(it: Injection) -> None:
    """Instances are missing: what is left works at its limit."""
    it.levers.move("capacity", it.target, it.shrink(0.1, 0.35))


def crashing(it: Injection) -> None:
    """Instances end and start again: requests in flight fail."""
    it.levers.move("failing", it.target, it.share(0.2, 0.8))
    it.levers.move("restarts", it.target, 0.05 * (it.course > 0).astype(np.float64))


def dead_machine(it: Injection) -> None:
    """What runs on the machine answers nobody."""
    for unit, share in it.graph.shares_on({it.target}):
        pods = it.graph.units[unit].pods
        bad = frozenset(n for n, pod in enumerate(pods) if pod.machine == it.target)
        there = np.full(it.clock.steps, share) * (it.course > 0)
        failing = it.share(0.6, 1.0)
        it.levers.add_part(Part(unit, there, np.zeros(it.clock.steps), failing, bad))


def closed_zone(it: Injection) -> None:
    """A zone was drained: what ran there is missing everywhere."""
    zone = it.graph.machines[it.target].zone
    machines = {n for n, machine in enumerate(it.graph.machines) if machine.zone == zone}
    for unit, share in it.graph.shares_on(machines):
        left = max(0.06, 1 - share)
        # What is left also takes what the others took, at rising cost.
        capacity = left * it.rng.uniform(0.15, 0.4) / it.strength
        it.levers.move("capacity", unit, 1 + (min(1.0, capacity) - 1) * it.course)
        pods = it.graph.units[unit].pods
        bad = frozenset(n for n, pod in enumerate(pods) if pod.machine in machines)
        # No request goes there any more; the part only says whose replicas are gone.
        nothing = np.zeros(it.clock.steps)
        it.levers.add_part(Part(unit, nothing, nothing, nothing, bad))


def _fault(
    name: str,
    hits: tuple[UnitKind, ...],
    act: Callable[[Injection], None],
    *,
    changed: float = 0.0,
    theme: str = "network",
    place: PlaceKind = PlaceKind.UNIT,
    symptom: str = "refused",
) -> SimulatedFault:
    return SimulatedFault(
        name,
        hits,
        act,
        SUDDEN,
        changed,
        ("config", "deploy"),
        theme,
        place=place,
        symptom=symptom,
    )


CLUSTER_FAULTS: dict[str, SimulatedFault] = {
    kind.name: kind
    for kind in (
        _fault("wrong_selector", CALLED, cut_off, changed=0.5),
        _fault("wrong_port", CALLED, cut_off, changed=0.5),
        _fault("network_policy", CALLED, partly_cut_off, changed=0.5),
        _fault("missing_backend", (K.SERVICE,), partly_cut_off, changed=0.5),
        _fault("quota_used_up", OURS, fewer_instances, symptom="slow"),
        _fault("unschedulable_pods", OURS, fewer_instances, symptom="slow"),
        _fault("image_missing", OURS, fewer_instances, changed=0.7, theme="code"),
        _fault("config_missing", OURS, fewer_instances, changed=0.5, theme="code"),
        _fault("wrong_probe", (K.SERVICE,), partly_cut_off, changed=0.6, theme="code"),
        _fault("claim_pending", (K.DATABASE,), cut_off),
        _fault("scaling_capped", OURS, fewer_instances, symptom="slow", theme="resources"),
        _fault("out_of_memory", OURS, crashing, changed=0.6, theme="memory", symptom="error"),
        _fault("crash_looping", OURS, crashing, changed=0.6, theme="code", symptom="error"),
        _fault("node_lost", (), dead_machine, place=PlaceKind.MACHINE, symptom="error"),
        _fault("node_pressure", (), acts.neighbour, place=PlaceKind.MACHINE, symptom="slow"),
        _fault("zone_cordoned", (), closed_zone, place=PlaceKind.ZONE, symptom="slow"),
    )
}
ALL_FAULTS = FAULTS | CLUSTER_FAULTS
