"""How each fault acts on a system: every function moves levers, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from proving_ground.worlds.clock import STEP_S, WorldClock
from proving_ground.worlds.graph import Floats, Graph
from proving_ground.worlds.levers import Levers, Part


@dataclass(frozen=True)
class Injection:
    """One fault about to be applied. `course` is 0 before it, up to 1 at full strength, shape
    [steps]; `target` is a unit, or a machine for faults of places; `edge` a call that it is about.
    """

    graph: Graph
    clock: WorldClock
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

    def faulty_edge(self) -> int:
        """The call that the fault is about."""
        assert self.edge is not None
        return self.edge


def slow_code(it: Injection) -> None:
    it.levers.move("work", it.target, it.factor(2.5, 8))


def n_plus_one(it: Injection) -> None:
    it.levers.move("calls", it.faulty_edge(), it.factor(12, 50))


def slow_queries(it: Injection) -> None:
    it.levers.move("cost", it.faulty_edge(), it.factor(8, 40))


def lock(it: Injection) -> None:
    it.levers.move("stall_s", it.target, it.seconds(0.3, 4))
    it.levers.move("failing", it.target, it.share(0.02, 0.3))


def small_pool(it: Injection) -> None:
    edge = it.graph.edges[it.faulty_edge()]
    # A pool of 5 of 40 is the usual mistake; large pools must shrink more before anyone waits.
    it.levers.move("pool", it.faulty_edge(), it.shrink(0.4 / edge.pool, 1.2 / edge.pool))


def leaking_pool(it: Injection) -> None:
    left = np.clip(1 - it.course * it.rng.uniform(1.0, 1.1), 0.001, 1)
    it.levers.move("pool", it.faulty_edge(), left)


def starved(it: Injection) -> None:
    it.levers.move("capacity", it.target, it.shrink(0.08, 0.3))


def leak(it: Injection) -> None:
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


def pauses(it: Injection) -> None:
    unit = it.target
    pods = frozenset(range(len(it.graph.units[unit].pods)))
    share, slower = it.share(0.06, 0.3), it.seconds(0.4, 3)
    it.levers.add_part(Part(unit, share, slower, np.zeros(it.clock.steps), pods))
    it.levers.move("memory", unit, 0.2 * it.course)


def full_disk(it: Injection) -> None:
    it.levers.move("disk", it.target, 0.55 * it.course)
    full = (it.course >= 1).astype(float)
    it.levers.move("failing", it.target, it.rng.uniform(0.3, 0.9) * full)


def flush(it: Injection) -> None:
    """Everything misses at once; what is read again comes back within the hour."""
    begun = int(np.argmax(it.course > 0)) if it.course.any() else it.clock.steps
    age = np.maximum(np.arange(it.clock.steps) - begun, 0) * STEP_S
    empty = np.exp(-age / it.rng.uniform(1200, 4000)) * (it.course > 0)
    for number, edge in enumerate(it.graph.edges):
        if edge.cache == it.target:
            misses = edge.miss + (1 - edge.miss) * empty
            it.levers.move("miss", number, misses / edge.miss)


def short_lifetime(it: Injection) -> None:
    edge = it.graph.edges[it.faulty_edge()]
    misses = np.minimum(edge.miss * it.factor(4, 12), 1.0)
    it.levers.move("miss", it.faulty_edge(), misses / edge.miss)


def impatient(it: Injection) -> None:
    """A time-out below what the callee needs, and more tries: load on the callee multiplies."""
    it.levers.move("deadline", it.faulty_edge(), it.shrink(0.03, 0.1))
    it.levers.move("attempts", it.faulty_edge(), 1 + it.course * it.rng.integers(2, 6))


def unreachable(low: float, high: float) -> Callable[[Injection], None]:
    def act(it: Injection) -> None:
        share = it.share(low, high)
        for number in it.calls_to():
            it.levers.move("unreached", number, share)

    return act


def delay(it: Injection) -> None:
    seconds = it.seconds(0.08, 1.0)
    for number in it.calls_to():
        it.levers.move("delay_s", number, seconds)


def loss(it: Injection) -> None:
    share, seconds = it.share(0.08, 0.4), it.seconds(0.25, 1.5)
    for number in it.calls_to():
        it.levers.move("lost", number, share)
        it.levers.move("lost_s", number, seconds)
        it.levers.move("unreached", number, share * 0.15)


def stuck(it: Injection) -> None:
    it.levers.move("capacity", it.target, it.shrink(0.005, 0.15))


def bad_replica(it: Injection) -> None:
    pods = len(it.graph.units[it.target].pods)
    bad = int(it.rng.integers(pods))
    share = np.full(it.clock.steps, 1 / pods) * (it.course > 0)
    slower, failing = slow_or_failing(it)
    it.levers.add_part(Part(it.target, share, slower, failing, frozenset({bad})))


def some_requests(it: Injection) -> None:
    """A version or flag that is wrong for part of the requests, at all replicas that have it."""
    pods = frozenset(range(len(it.graph.units[it.target].pods)))
    slower, failing = slow_or_failing(it)
    it.levers.add_part(Part(it.target, it.share(0.15, 0.9), slower, failing, pods))


def slow_or_failing(it: Injection) -> tuple[Floats, Floats]:
    nothing = np.zeros(it.clock.steps)
    if it.rng.random() < 0.4:
        return it.seconds(0.3, 3), nothing
    return nothing, it.share(0.3, 1.0)


def wrong_setting(it: Injection) -> None:
    it.levers.move("failing", it.target, it.share(0.15, 0.95))


def outage(it: Injection) -> None:
    if it.rng.random() < 0.5:
        it.levers.move("failing", it.target, it.share(0.2, 1.0))
    else:
        it.levers.move("stall_s", it.target, it.seconds(1.0, 20.0))


def quota(it: Injection) -> None:
    """Part of the calls is turned away at once."""
    it.levers.move("failing", it.target, it.share(0.1, 0.7))


def surge(it: Injection) -> None:
    factor = it.factor(2.0, 5.0)
    for number, route in enumerate(it.graph.routes):
        if route.front == it.target and not route.rare:
            it.levers.move("load", number, factor)


def place(it: Injection, machines: set[int]) -> None:
    slower, failing = slow_or_failing(it)
    for unit, share in it.graph.shares_on(machines):
        pods = it.graph.units[unit].pods
        bad = frozenset(n for n, pod in enumerate(pods) if pod.machine in machines)
        there = np.full(it.clock.steps, share) * (it.course > 0)
        it.levers.add_part(Part(unit, there, slower, failing, bad))


def bad_machine(it: Injection) -> None:
    place(it, {it.target})


def bad_zone(it: Injection) -> None:
    zone = it.graph.machines[it.target].zone
    place(it, {n for n, machine in enumerate(it.graph.machines) if machine.zone == zone})


def bad_cluster(it: Injection) -> None:
    cluster = it.graph.machines[it.target].cluster
    place(it, {n for n, machine in enumerate(it.graph.machines) if machine.cluster == cluster})


def neighbour(it: Injection) -> None:
    """A foreign job takes the machine's CPU: everything else on it takes a multiple of its time."""
    times = it.rng.uniform(3, 15) * it.strength
    for unit, share in it.graph.shares_on({it.target}):
        value = it.graph.units[unit]
        bad = frozenset(n for n, pod in enumerate(value.pods) if pod.machine == it.target)
        there = np.full(it.clock.steps, share) * (it.course > 0)
        # Throttled work also queues: a tenth of a second is the CFS period.
        slower = it.course * (value.self_s * times + 0.1 * it.strength)
        it.levers.add_part(Part(unit, there, slower, np.zeros(it.clock.steps), bad))
