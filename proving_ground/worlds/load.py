"""Requests that enter the system: daily shape, noise, bursts and batch jobs."""

from __future__ import annotations

import numpy as np

from proving_ground.worlds.clock import STEP_S, WorldClock
from proving_ground.worlds.graph import Floats, Graph
from proving_ground.worlds.seeds import WorldSeed

DAY_S = 86400


def entering(graph: Graph, clock: WorldClock, seed: WorldSeed) -> Floats:
    """Requests per second of each route, expected; shape [routes, steps]."""
    rng = seed.generator("load")
    swing = rng.uniform(0.1, 0.6)
    busiest_s = rng.uniform(0.5, 0.85) * DAY_S
    phase = 2 * np.pi * (clock.start_s % DAY_S + clock.seconds - busiest_s) / DAY_S
    # The second harmonic gives the steep morning and the flat afternoon of office-hours traffic.
    daily = 1 + swing * (0.85 * np.cos(phase) + 0.15 * np.cos(2 * phase))
    common = slow_noise(rng, clock.steps, rng.uniform(0.01, 0.05), 40)
    rates = np.empty((len(graph.routes), clock.steps))
    for number, route in enumerate(graph.routes):
        route_noise = slow_noise(rng, clock.steps, rng.uniform(0.02, 0.1), 20)
        rates[number] = graph.mean_rate * route.share * daily * common * route_noise
        if route.rare:
            rates[number] *= _bursts(rng, clock.steps)
    _add_batch_jobs(rng, graph, clock, rates)
    return rates


def slow_noise(rng: np.random.Generator, steps: int, size: float, memory: int) -> Floats:
    """A factor around 1 that wanders, and forgets over that many steps; shape [steps]."""
    knots = max(2, steps // memory + 2)
    values = rng.normal(0.0, size, knots)
    places = np.linspace(0, steps, knots)
    smooth = np.interp(np.arange(steps), places, values)
    return np.exp(smooth + rng.normal(0.0, size / 3, steps))


def _bursts(rng: np.random.Generator, steps: int) -> Floats:
    """Quiet most of the time, with bursts of 1-8 min a few times an hour."""
    factor = np.full(steps, 0.3)
    begin = 0
    while True:
        begin += int(rng.exponential(25 * 60 / STEP_S)) + 1
        if begin >= steps:
            return factor
        length = int(rng.uniform(60, 480) / STEP_S)
        factor[begin : begin + length] = rng.uniform(3, 12)
        begin += length


def _add_batch_jobs(
    rng: np.random.Generator, graph: Graph, clock: WorldClock, rates: Floats
) -> None:
    """In a third of worlds one route is also called by a job, every 30 min to 6 h."""
    if rng.random() > 0.35:
        return
    route = int(rng.integers(len(graph.routes)))
    period_s = int(rng.choice((1800, 3600, 3600, 21600)))
    length_s = period_s * rng.uniform(0.05, 0.2)
    phase = (clock.start_s + clock.seconds + rng.uniform(0, period_s)) % period_s
    strength = rng.uniform(0.3, 1.2) * rates[route].mean()
    rates[route] += np.where(phase < length_s, strength, 0.0)
