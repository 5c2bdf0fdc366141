"""What is true of a world: the label that grading reads, and all else in truth.json."""

from __future__ import annotations

from typing import Any

from proving_ground.worlds.faults import PlaceKind
from proving_ground.worlds.graph import UnitKind
from proving_ground.worlds.telemetry.conditions import Conditions
from proving_ground.worlds.world import World

NO_CHANGE = "none"


def label_of(world: World, *, named: bool) -> dict[str, Any]:
    """label.json. `named` says whether any table or the alert names the culprit; where none does,
    the right answer is that the evidence does not suffice."""
    decoys = [change.id for change in world.changes if change.id != world.guilty]
    if world.fault is None:
        return {
            "fault": f"calm_{world.story}",
            "change": NO_CHANGE,
            "decoys": decoys,
            "verdict": "no_active_incident",
        }
    label = {
        "fault": world.fault.kind.name,
        "change": world.guilty or NO_CHANGE,
        "decoys": decoys,
        "verdict": "recovered" if world.story == "recovered" else "cause_found",
    }
    if not named:
        label["verdict"] = "insufficient_evidence"
        return label
    label["subject"] = world.fault.subject(world.graph)
    return label


def truth_of(world: World, conditions: Conditions, *, named: bool) -> dict[str, Any]:
    """truth.json: everything the generator knows. Steps are counted from the first metric."""
    graph = world.graph
    document: dict[str, Any] = {
        "seed": world.seed.number,
        "stream": "test" if world.seed.test else "train",
        "story": world.story,
        "units": len(graph.units),
        "edges": len(graph.edges),
        "alert": {
            "unit": graph.units[world.rule.unit].name,
            "signal": world.rule.signal,
            "threshold": world.rule.threshold,
            "step": world.alert_step,
            "fires_without_fault": world.fires_without,
        },
        "guilty_change": world.guilty,
        "harmless_changes": [c.id for c in world.changes if c.id != world.guilty],
        "bystanders": [
            {"fault": b.fault, "subject": b.subject, "begins": b.begins, "ends": b.ends}
            for b in world.bystanders
        ],
        "calls": [
            [graph.units[edge.caller].name, graph.units[edge.callee].name] for edge in graph.edges
        ],
        "telemetry": _conditions(world, conditions),
    }
    if world.fault is not None:
        document["cause"] = _cause(world, conditions, named=named)
    return document


def _conditions(world: World, conditions: Conditions) -> dict[str, Any]:
    return {
        "conventions": sorted(set(conditions.conventions)),
        "interval_s": sorted({15 * steps for steps in conditions.intervals}),
        "silent": sorted(world.graph.units[unit].name for unit in conditions.silent),
        "missing_metrics": conditions.missing_metrics,
        "missing_points": conditions.missing_points,
        "seams": len(conditions.seams),
        "lag_steps": conditions.lag_steps,
        "labels": conditions.labels,
        "logs": conditions.logs,
        "spans": conditions.spans > 0,
        "topology": conditions.topology,
    }


def _cause(world: World, conditions: Conditions, *, named: bool) -> dict[str, Any]:
    fault, graph = world.fault, world.graph
    assert fault is not None
    hit = sorted(fault.units_hit(graph))
    below = graph.hops_from(world.rule.unit)
    above = graph.hops_to(world.rule.unit)
    # The nearest unit at fault; where none is below the alert, it is above or beside it.
    nearest = min(hit, key=lambda unit: (below.get(unit, 1000), above.get(unit, 1000), unit))
    where = "below" if nearest in below else "above" if nearest in above else "beside"
    path = graph.path(world.rule.unit, nearest)
    return {
        "fault": fault.kind.name,
        "place": fault.kind.place.value,
        "subject": fault.subject(graph),
        "kind": _kind(world),
        "units_hit": [graph.units[unit].name for unit in hit],
        "edge": _edge(world),
        "begins": fault.begins,
        "begins_before_alert_s": (world.alert_step - fault.begins) * 15,
        "strength": fault.strength,
        "hops": below.get(nearest),
        "where": where,
        "path": [graph.units[unit].name for unit in path],
        "watched": any(
            unit not in conditions.silent and graph.units[unit].kind is not UnitKind.EXTERNAL
            for unit in hit
        ),
        "named_in_tables": named,
    }


def _kind(world: World) -> str:
    fault = world.fault
    assert fault is not None
    if fault.kind.place is not PlaceKind.UNIT:
        return fault.kind.place.value
    return world.graph.units[fault.target].kind.value


def _edge(world: World) -> list[str] | None:
    fault = world.fault
    if fault is None or fault.edge is None:
        return None
    edge = world.graph.edges[fault.edge]
    return [world.graph.units[edge.caller].name, world.graph.units[edge.callee].name]
