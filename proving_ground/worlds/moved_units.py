"""What an observer would name who has the replay at hand, and all calls: truth by replay.

World and replay share their load and their chance, so wherever the state of a unit differs the
fault moved it. The observer names the lowest units that were moved, whose own callees all stayed as
they were. It sees no unit without metrics, and names no place. Load and waiting move innocent units
below the culprit as well: this is what a simple rule makes of perfect records, no upper bound.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from proving_ground.worlds.graph import Floats
from proving_ground.worlds.physics import History
from proving_ground.worlds.world import World

MOVED = 1.0
"""A unit was moved when a quantity of it differs by as much as it usually varies."""
LEAST_VARIATION = 0.05
"""Of its usual level: what hardly varies would else be moved by a trifle."""


def named_by_replay(world: World, watched: Collection[str]) -> list[str]:
    """The watched units that the fault moved: the lowest first, and of those the ones that it moved
    most."""
    graph = world.graph
    moves = _moves(world)
    moved = {}
    for unit, value in enumerate(graph.units):
        if value.name in watched and moves[unit] >= MOVED:
            moved[unit] = float(moves[unit])
    lowest = []
    for unit in moved:
        callees = {edge.callee for edge in graph.edges[graph.calls_of[unit]]}
        lowest.append((bool(callees & moved.keys()), -moved[unit], graph.units[unit].name))
    return [name for _, _, name in sorted(lowest)]


def _moves(world: World) -> Floats:
    """By unit how far the incident moved any of its quantities, in usual variations."""
    begin, end = world.window
    largest = np.zeros(len(world.graph.units))
    for with_fault, without in zip(
        _quantities(world.history), _quantities(world.calm), strict=True
    ):
        before = without[:, :begin]
        usual = np.maximum(before.std(axis=1), LEAST_VARIATION * np.abs(before.mean(axis=1)))
        gap = np.abs(with_fault - without)[:, begin:end].mean(axis=1)
        # What never varied, such as no failures at all, is moved by one in a thousand.
        largest = np.maximum(largest, gap / np.maximum(usual, 1e-3))
    return largest


def _quantities(history: History) -> Iterator[Floats]:
    """What metrics of units are made of; each of shape [units, steps]."""
    yield history.rate
    yield history.failing
    yield history.mean_s
    yield history.used
    yield history.waiting
