"""How well a world is observed: intervals, gaps, what is missing and what is not watched at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proving_ground.worlds.clock import STEP_S
from proving_ground.worlds.graph import Graph, UnitKind
from proving_ground.worlds.seeds import WorldSeed

INTERVALS_S = (15, 30, 30, 60, 60, 60, 120, 300)
"""Scrape and export intervals as they are configured; 60 s is the default of Prometheus and
OpenTelemetry, 300 s that of CloudWatch's basic monitoring."""
LABELS = ("none", "service", "pod")


@dataclass(frozen=True)
class Seam:
    """A hole in the metrics: of one unit, or of all (`unit` None). Steps from the world's start."""

    unit: int | None
    begins: int
    ends: int


@dataclass(frozen=True)
class Conditions:
    """What the telemetry of one world is like.

    `intervals` has steps between points per unit, `silent` the units without any telemetry,
    `missing_metrics` the share of a unit's metrics that nobody collects, `lag_steps` by how much
    metrics end before the window does.
    """

    conventions: tuple[str, ...]
    intervals: tuple[int, ...]
    silent: frozenset[int]
    missing_metrics: float
    missing_points: float
    jitter_s: float
    seams: tuple[Seam, ...]
    lag_steps: int
    labels: str
    client_metrics: bool
    logs: bool
    log_errors_share: float
    spans: int
    topology: str
    restarts: tuple[tuple[int, int], ...]
    """(unit, step) of restarts that harm nobody and set counters to zero."""


def draw_conditions(
    graph: Graph, alerting: int, window: tuple[int, int], seed: WorldSeed, names: tuple[str, ...]
) -> Conditions:
    """The conditions of a world. The alerting unit is always watched."""
    rng = seed.generator("conditions")
    main, other = (str(name) for name in rng.choice(names, size=2, replace=False))
    mixed = rng.random() < 0.35
    usual = int(rng.choice(INTERVALS_S)) // STEP_S
    conventions, intervals, silent = [], [], set()
    dark = float(rng.choice((0.0, 0.05, 0.2)))
    for number, unit in enumerate(graph.units):
        conventions.append(other if mixed and rng.random() < 0.4 else main)
        rarer = rng.random() < 0.1
        intervals.append(int(rng.choice(INTERVALS_S)) // STEP_S if rarer else usual)
        chance = {UnitKind.EXTERNAL: 1.0, UnitKind.DATABASE: dark + 0.15}.get(unit.kind, dark)
        if rng.random() < chance and number != alerting:
            silent.add(number)
    labels = str(rng.choice(LABELS, p=(0.3, 0.2, 0.5)))
    if labels == "pod" and len(graph.units) > 60:
        labels = "service"
    return Conditions(
        conventions=tuple(conventions),
        intervals=tuple(intervals),
        silent=frozenset(silent),
        missing_metrics=float(rng.choice((0.0, 0.1, 0.4))),
        missing_points=float(rng.choice((0.0, 0.002, 0.03))),
        jitter_s=float(rng.choice((0.0, 0.0, 1.0, 5.0))),
        seams=_seams(rng, len(graph.units), window),
        lag_steps=int(rng.choice((0, 0, 4, 12))),
        labels=labels,
        client_metrics=bool(rng.random() < 0.45),
        logs=bool(rng.random() < 0.8),
        log_errors_share=float(rng.uniform(0.2, 1.0)),
        spans=int(rng.choice((0, 0, 250, 600))),
        topology=str(rng.choice(("known", "partial", "absent"), p=(0.5, 0.25, 0.25))),
        restarts=_restarts(rng, len(graph.units), window),
    )


def _seams(rng: np.random.Generator, units: int, window: tuple[int, int]) -> tuple[Seam, ...]:
    """Mostly none; else a unit's exporter or the whole monitoring was away for some minutes."""
    seams = []
    for _ in range(int(rng.poisson(0.7))):
        begin = int(rng.uniform(0, window[1]))
        length = int(rng.uniform(8, 80))
        unit = None if rng.random() < 0.3 else int(rng.integers(units))
        seams.append(Seam(unit, begin, begin + length))
    return tuple(seams)


def _restarts(
    rng: np.random.Generator, units: int, window: tuple[int, int]
) -> tuple[tuple[int, int], ...]:
    restarts = []
    for _ in range(int(rng.poisson(2.0))):
        restarts.append((int(rng.integers(units)), int(rng.uniform(0, window[1]))))
    return tuple(restarts)
