"""Whole requests: from expected rates to numbers that are conserved along calls.

Each unit and edge has its own random numbers, drawn whether or not a fault happens, and a count
is a quantile of its distribution. The same world with and without the fault therefore has the same
noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proving_ground.worlds.clock import STEP_S
from proving_ground.worlds.graph import Floats, Graph
from proving_ground.worlds.physics import History
from proving_ground.worlds.seeds import WorldSeed

FEW = 12.0
"""Below this mean a Poisson count is drawn exactly, above it as a rounded normal variable (skew
below .3)."""


@dataclass(frozen=True)
class Counts:
    """Requests per step, whole numbers. `arrived` and `failed` have shape [units, steps];
    `called`, `call_failed` and `reached` [edges, steps]; `entered` [routes, steps]."""

    entered: Floats
    arrived: Floats
    failed: Floats
    called: Floats
    reached: Floats
    call_failed: Floats


def count_requests(graph: Graph, entries: Floats, history: History, seed: WorldSeed) -> Counts:
    """Requests of each step. What arrives at a unit is what its callers sent, or what entered."""
    steps = history.rate.shape[1]
    arrived = np.zeros_like(history.rate)
    entered = np.zeros((len(graph.routes), steps))
    called = np.zeros_like(history.attempts)
    reached = np.zeros_like(history.attempts)
    call_failed = np.zeros_like(history.attempts)
    for number, route in enumerate(graph.routes):
        noise = seed.generator("entered", number)
        entered[number] = whole_count(noise, entries[number] * STEP_S)
        arrived[route.front] += entered[number]
    for unit in range(len(graph.units)):
        calls = graph.calls_of[unit]
        for edge in range(calls.start, calls.stop):
            noise = seed.generator("called", edge)
            rate = np.maximum(history.rate[unit], 1e-12)
            per_arrival = history.attempts[edge] / rate
            called[edge] = whole_count(noise, arrived[unit] * per_arrival)
            lost = whole_share(noise, called[edge], 1 - history.arriving[edge])
            reached[edge] = called[edge] - lost
            # What never arrived has failed; of the rest, what the callee or the deadline failed.
            missing = 1 - history.arriving[edge]
            rest = (history.call_failing[edge] - missing) / np.maximum(1 - missing, 1e-9)
            call_failed[edge] = lost + whole_share(noise, reached[edge], rest)
            arrived[graph.edges[edge].callee] += reached[edge]
    failed = np.zeros_like(arrived)
    for unit in range(len(graph.units)):
        noise = seed.generator("failed", unit)
        failed[unit] = whole_share(noise, arrived[unit], history.failing[unit])
    return Counts(entered, arrived, failed, called, reached, call_failed)


def whole_count(rng: np.random.Generator, mean: Floats) -> Floats:
    """Poisson counts of these means; takes the same random numbers whatever the means are."""
    normal = rng.standard_normal(mean.shape)
    uniform = rng.random(mean.shape)
    counts: Floats = np.maximum(np.rint(mean + normal * np.sqrt(mean)), 0.0)
    few = mean < FEW
    if few.any():
        counts[few] = _exact(uniform[few], mean[few])
    return counts


def whole_share(rng: np.random.Generator, total: Floats, share: Floats) -> Floats:
    """How many of `total` are of a kind with probability `share`."""
    chance = np.clip(share, 0.0, 1.0)
    # A share above a half is counted by what is left over, whose mean is small.
    many = chance > 0.5
    rare = np.where(many, 1 - chance, chance)
    mean = total * rare
    normal = rng.standard_normal(total.shape)
    uniform = rng.random(total.shape)
    counts = np.rint(mean + normal * np.sqrt(mean * (1 - rare)))
    few = mean < FEW
    if few.any():
        counts[few] = _exact(uniform[few], mean[few])
    counts = np.clip(counts, 0.0, total)
    return np.asarray(np.where(many, total - counts, counts))


def _exact(uniform: Floats, mean: Floats) -> Floats:
    """The Poisson quantile of each uniform number, for small means."""
    term = np.exp(-mean)
    below = term.copy()
    counts = np.zeros_like(mean)
    for number in range(1, 45):
        more = uniform > below
        if not more.any():
            break
        counts[more] = number
        term = term * mean / number
        below = below + term
    return counts
