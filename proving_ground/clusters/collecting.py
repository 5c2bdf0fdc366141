"""Reads a simulated cluster as the Kubernetes connector would, and adds it to the world's case.

The worlds know nothing of the product. Here their objects go through the connector's own lists and
rules, so that what is measured is what an investigation would have seen.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import polars as pl

from faultline.analysis.case.folder import read_case
from faultline.analysis.case.tables import table_file, write_table
from faultline.analysis.vocabulary import Alert, Scope
from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.vendors.kubernetes.inquiry import ClusterInquiry
from faultline.connectors.vendors.kubernetes.session import ServedGroup
from faultline.connectors.vendors.kubernetes.workloads import Ref, parsed, refs_of
from proving_ground.worlds.cluster.snapshot import ClusterSnapshot, snapshot_of
from proving_ground.worlds.cluster_faults import CLUSTER_FAULTS
from proving_ground.worlds.seeds import WorldSeed
from proving_ground.worlds.world import World
from proving_ground.worlds.writing import write_world

T = TypeVar("T")
NO_SELECTION: Mapping[str, str] = {}


class SnapshotReads:
    """Answers the connector's lists from a snapshot, as an API server would."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._lists = snapshot.lists

    async def all(
        self,
        path: str,
        type: type[T],
        *,
        selection: Mapping[str, str] = NO_SELECTION,
        names_only: bool = False,
    ) -> tuple[list[T], str | None]:
        """The objects at `path` that are selected."""
        objects = []
        for manifest in self._lists.get(path, ()):
            if _is_selected(manifest, selection):
                fields = {"metadata": manifest["metadata"]} if names_only else manifest
                objects.append(msgspec.convert(fields, type))
        return objects, None

    async def groups(self) -> dict[str, ServedGroup]:
        """No operator of training jobs is there."""
        return {}


def _is_selected(manifest: Mapping[str, Any], selection: Mapping[str, str]) -> bool:
    labels = manifest["metadata"].get("labels") or {}
    for key, value in _pairs(selection.get("labelSelector", "")):
        if labels.get(key) != value:
            return False
    return all(
        _field(manifest, key) == value for key, value in _pairs(selection.get("fieldSelector", ""))
    )


def _pairs(selector: str) -> list[tuple[str, str]]:
    pairs = []
    for part in selector.split(","):
        key, equals, value = part.partition("=")
        if equals:
            pairs.append((key, value))
    return pairs


def _field(manifest: Mapping[str, Any], path: str) -> Any:
    value: Any = manifest
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, Mapping) else ""
    return value


def write_cluster_world(world: World, folder: Path) -> Path:
    """The case folder of a world with what the connector brings of its cluster."""
    path = write_world(world, folder)
    snapshot = snapshot_of(world)
    case = read_case(path)
    calls = tuple(case.topology.select("caller", "callee").iter_rows())
    scope = case.scope.model_copy(update={"services": in_scope(case.alert, world), "calls": calls})
    collected = asyncio.run(collect(snapshot, case.alert, scope))
    for name, rows in collected.tables.items():
        _add(path, name, rows)
    if snapshot.culprit is not None:
        _relabel(path, snapshot.culprit)
    return path


def in_scope(alert: Alert, world: World) -> tuple[str, ...]:
    """The services nearest to the alert, callees before callers: as many as the connector reads."""
    start = world.rule.unit
    below, above = world.graph.hops_from(start), world.graph.hops_to(start)
    order = sorted(below, key=lambda unit: (below[unit], unit))
    order += sorted(above, key=lambda unit: (above[unit], unit))
    order += range(len(world.graph.units))
    names = [world.graph.units[unit].name for unit in dict.fromkeys(order)]
    return tuple(names)


async def collect(snapshot: ClusterSnapshot, alert: Alert, scope: Scope) -> Collected:
    """What the connector makes of the snapshot."""
    refs_by_unit: dict[str, Sequence[Ref]] = {}
    for unit, text in snapshot.workloads.items():
        refs_by_unit[unit] = [parsed(unit, text)]
    inquiry = ClusterInquiry(SnapshotReads(snapshot), scope, None)
    refs = refs_of(alert, scope, refs_by_unit, {}, ())
    for ref in refs:
        await inquiry.workload(ref)
    for space in dict.fromkeys(ref.namespace for ref in refs):
        await inquiry.namespace(space)
    await inquiry.nodes()
    await inquiry.states()
    return inquiry.collected()


def _add(path: Path, name: str, rows: pl.DataFrame) -> None:
    """Add rows to a table of the case. What the world wrote of it stays."""
    if not rows.height:
        return
    if table_file(path, name) is not None:
        before = getattr(read_case(path), name)
        rows = pl.concat([before, rows], how="diagonal").select(before.columns)
    write_table(path, name, rows)


def _relabel(path: Path, culprit: str) -> None:
    """Name the object that is to blame, which may be none of the world's units."""
    file = path / "label.json"
    label = json.loads(file.read_text())
    label |= {"subject": culprit, "verdict": "cause_found"}
    file.write_text(json.dumps(label, indent=1, ensure_ascii=False) + "\n")


def cluster_world(number: int, *, test: bool, fault: str | None, size: int | None) -> World:
    """The world of a seed, with a fault of its cluster in five of six."""
    seed = WorldSeed(number, test)
    rng = seed.generator("cluster fault")
    requested_size = size or int(rng.integers(6, 21))
    if fault is None and rng.random() < 5 / 6:
        fault = str(rng.choice(list(CLUSTER_FAULTS)))
    return World.of(seed, size=requested_size, fault=fault)
