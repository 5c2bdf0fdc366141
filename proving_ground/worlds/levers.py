"""What can be changed about a system while it runs: the only way a fault reaches the physics."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from proving_ground.worlds.graph import Floats

MULTIPLIED = frozenset(
    {"work", "capacity", "calls", "cost", "deadline", "attempts", "miss", "pool", "load"}
)
"""Levers whose neutral value is 1: service time, servers, calls per request, cost of a query,
time-out, tries, cache misses, connections, entering requests. All others are added and neutral at
0."""
ADDED = frozenset(
    {"stall_s", "failing", "delay_s", "lost", "lost_s", "unreached", "memory", "disk", "restarts"}
)
"""Seconds without CPU, share of requests failing, seconds on the network, share and seconds of
retransmissions, share of calls that find no callee; memory and disk used (share of the limit),
restarts per step."""


@dataclass(frozen=True)
class Part:
    """Trouble at some replicas of a unit: `share` of its requests take `slower_s` longer, and
    `failing` of those fail. All arrays have shape [steps]."""

    unit: int
    share: Floats
    slower_s: Floats
    failing: Floats
    pods: frozenset[int]


class Levers:
    """The positions of all levers over the steps of a world."""

    def __init__(self) -> None:
        self._moved: dict[tuple[str, int], Floats] = {}
        self.parts: dict[int, list[Part]] = defaultdict(list)

    def copy(self) -> Levers:
        """Another set of levers in the same positions."""
        twin = Levers()
        twin._moved = dict(self._moved)
        for unit, parts in self.parts.items():
            twin.parts[unit] = list(parts)
        return twin

    def move(self, lever: str, index: int, values: Floats) -> None:
        """Move one lever of a unit, edge or route further; `values` has shape [steps]."""
        if lever not in MULTIPLIED | ADDED:
            raise KeyError(lever)
        before = self._moved.get((lever, index))
        if before is None:
            self._moved[lever, index] = values
        elif lever in MULTIPLIED:
            self._moved[lever, index] = before * values
        else:
            self._moved[lever, index] = before + values

    def add_part(self, part: Part) -> None:
        """Trouble at some replicas."""
        self.parts[part.unit].append(part)

    def get(self, lever: str, index: int, window: slice) -> Floats | None:
        """The lever's positions, or None where nothing moved it."""
        values = self._moved.get((lever, index))
        return None if values is None else values[window]

    def rows(self, lever: str, indices: range, window: slice, steps: int) -> Floats | None:
        """The positions of several neighbouring levers, shape [len(indices), steps], or None."""
        matching_indices = [i for i in indices if (lever, i) in self._moved]
        if not matching_indices:
            return None
        neutral = 1.0 if lever in MULTIPLIED else 0.0
        rows = np.full((len(indices), steps), neutral)
        for index in matching_indices:
            rows[index - indices.start] = self._moved[lever, index][window]
        return rows
