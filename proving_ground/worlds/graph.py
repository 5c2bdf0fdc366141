"""The values a world is made of: units, calls between them, routes and places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class UnitKind(StrEnum):
    """What a unit is; it decides which faults can hit it and which metrics exist of it."""

    FRONT = "front"
    SERVICE = "service"
    WORKER = "worker"
    QUEUE = "queue"
    DATABASE = "database"
    CACHE = "cache"
    EXTERNAL = "external"


@dataclass(frozen=True)
class Replica:
    """One replica and the machine it runs on (index into `Graph.machines`)."""

    name: str
    machine: int


@dataclass(frozen=True)
class Machine:
    """A node of a cluster."""

    name: str
    zone: str
    cluster: str


@dataclass(frozen=True)
class Unit:
    """Something requests pass through.

    `self_s` is the mean time of its own work per request, `spread` the coefficient of variation of
    that time, `slots` how many requests a replica works on at once (cores; a
    fraction where it may use less than one),
    `threads` how many it may hold open. `longest_wait_s` bounds the queue in front of it.
    """

    name: str
    kind: UnitKind
    pods: tuple[Replica, ...]
    self_s: float
    spread: float
    slots: float
    threads: int
    longest_wait_s: float
    failing: float
    most_pods: int
    memory_mb: float

    @property
    def autoscaled(self) -> bool:
        """Whether replicas follow the load."""
        return self.most_pods > len(self.pods)


@dataclass(frozen=True)
class CallEdge:
    """Calls of one unit to another.

    `attempts` counts the first try, `absorbs` is the share of failed calls that a fallback hides,
    `pool` the connections all replicas of the caller hold together (0: unlimited), `cache` the unit
    whose misses cause these calls (-1: none), `miss` the share of reads that miss it.
    """

    caller: int
    callee: int
    deadline_s: float
    attempts: int
    absorbs: float
    pool: int
    cache: int
    miss: float
    waits: bool


@dataclass(frozen=True)
class Route:
    """One kind of request: how often it visits each unit and each call, per entry.

    `visits` has shape [units], `calls` has shape [edges].
    """

    name: str
    front: int
    share: float
    rare: bool
    visits: Floats
    calls: Floats


@dataclass(frozen=True)
class Graph:
    """A system. Units are in an order in which each call goes from a lower to a higher index, and
    edges are sorted by caller, so that a unit's calls are one slice. `mean_rate` is the requests
    per second at all front doors together, averaged over a day."""

    system: str
    units: tuple[Unit, ...]
    edges: tuple[CallEdge, ...]
    routes: tuple[Route, ...]
    machines: tuple[Machine, ...]
    mean_rate: float

    @cached_property
    def calls_of(self) -> tuple[slice, ...]:
        """The slice of `edges` that each unit calls."""
        callers = np.array([edge.caller for edge in self.edges], dtype=np.int64)
        unit_numbers = np.arange(len(self.units))
        starts = np.searchsorted(callers, unit_numbers, side="left")
        ends = np.searchsorted(callers, unit_numbers, side="right")
        return tuple(slice(int(a), int(b)) for a, b in zip(starts, ends, strict=True))

    @cached_property
    def callers_of(self) -> tuple[tuple[int, ...], ...]:
        """The edges that end at each unit."""
        edges_by_callee: list[list[int]] = [[] for _ in self.units]
        for number, edge in enumerate(self.edges):
            edges_by_callee[edge.callee].append(number)
        return tuple(tuple(numbers) for numbers in edges_by_callee)

    def index(self, name: str) -> int:
        """The unit of that name."""
        for number, unit in enumerate(self.units):
            if unit.name == name:
                return number
        raise KeyError(name)

    def of_kind(self, *kinds: UnitKind) -> list[int]:
        """The units of these kinds."""
        return [n for n, unit in enumerate(self.units) if unit.kind in kinds]

    def hops_from(self, start: int) -> dict[int, int]:
        """Calls between a unit and everything below it; itself is 0."""
        return self._search(start, downwards=True)

    def hops_to(self, end: int) -> dict[int, int]:
        """Calls between everything above a unit and that unit."""
        return self._search(end, downwards=False)

    def path(self, start: int, end: int) -> list[int]:
        """The shortest chain of calls from `start` down to `end`; empty when there is none."""
        above = self.hops_to(end)
        if start not in above:
            return []
        chain = [start]
        while chain[-1] != end:
            for edge in self.edges[self.calls_of[chain[-1]]]:
                if above.get(edge.callee, -1) == above[chain[-1]] - 1:
                    chain.append(edge.callee)
                    break
        return chain

    def shares_on(self, machines: set[int]) -> Iterator[tuple[int, float]]:
        """(unit, share of its pods) for units with a pod on one of the machines."""
        for number, unit in enumerate(self.units):
            there = sum(pod.machine in machines for pod in unit.pods)
            if there:
                yield number, there / len(unit.pods)

    def _search(self, start: int, *, downwards: bool) -> dict[int, int]:
        hops = {start: 0}
        waiting = [start]
        for unit in waiting:
            if downwards:
                following = [edge.callee for edge in self.edges[self.calls_of[unit]]]
            else:
                following = [self.edges[number].caller for number in self.callers_of[unit]]
            for other in following:
                if other not in hops:
                    hops[other] = hops[unit] + 1
                    waiting.append(other)
        return hops
