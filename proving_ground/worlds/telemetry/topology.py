"""The topology table: who calls whom, as far as anybody has written it down."""

from __future__ import annotations

import polars as pl

from proving_ground.worlds.graph import UnitKind
from proving_ground.worlds.telemetry.conditions import Conditions
from proving_ground.worlds.world import World


def topology_table(world: World, conditions: Conditions) -> pl.DataFrame:
    """caller, callee; all calls, some, or none."""
    if conditions.topology == "absent":
        return pl.DataFrame()
    rng = world.seed.generator("topology")
    share = rng.uniform(0.5, 0.85)
    callers, callees = [], []
    for edge in world.graph.edges:
        callee = world.graph.units[edge.callee]
        is_listed = conditions.topology == "known" or rng.random() < share
        # Catalogues forget what is outside: providers first.
        if callee.kind is UnitKind.EXTERNAL and rng.random() < 0.4:
            is_listed = False
        if is_listed:
            callers.append(world.graph.units[edge.caller].name)
            callees.append(callee.name)
    return pl.DataFrame({"caller": callers, "callee": callees}) if callers else pl.DataFrame()
