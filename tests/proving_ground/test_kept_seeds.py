"""A seed gives the incident that it always gave: figures of two versions are compared by seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from faultline.analysis.case.folder import read_case
from proving_ground.clusters.collecting import cluster_world, write_cluster_world
from proving_ground.plain.generator.incident import Incident
from proving_ground.plain.generator.kinds import KINDS
from proving_ground.plain.generator.rules import make_incident
from proving_ground.worlds.seeds import WorldSeed
from proving_ground.worlds.world import World
from proving_ground.worlds.writing import write_world
from tests.kept import assert_kept

FOLDER = Path(__file__).parent / "kept_seeds"
TABLES = ("metrics", "logs", "spans", "changes", "topology", "states", "monitors")
END = 1_772_452_800
SHARE = 61
"""One sample in that many is in the digest."""
FIGURES = 6
"""Significant digits: the last bits of a float differ between machines."""


def digest(values: Iterable[object]) -> str:
    """Of values in their order."""
    text = "\n".join(
        f"{value:.{FIGURES}g}" if isinstance(value, float) else str(value) for value in values
    )
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def case_lines(folder: Path) -> Iterator[str]:
    """Rows of each table, and what the label says."""
    case = read_case(folder)
    for name in TABLES:
        table = getattr(case, name)
        yield f"{name}: {table.height} rows {digest(v for row in table.iter_rows() for v in row)}"
    for name in ("label.json", "alert.json"):
        yield " ".join((folder / name).read_text().split())


def metrics_line(incident: Incident) -> str:
    """The metrics of a plain incident."""
    metrics = incident.exposition(END).metrics
    values: list[object] = []
    count = 0
    for name, series in metrics.items():
        for labels, samples, *_ in series:
            values += [name, labels, *np.asarray(samples, dtype=float)[::SHARE].tolist()]
            count += 1
    return f"{len(metrics)} metrics, {count} series {digest(values)}"


def test_each_kind_of_plain_incident_is_as_it_is_kept() -> None:
    lines = []
    for name, kind in KINDS.items():
        lines.append(f"{name}: {metrics_line(make_incident(kind, 1)[0])}")
    assert_kept(FOLDER / "plain.txt", "\n".join([*lines, ""]))


def test_worlds_are_as_they_are_kept(tmp_path: Path) -> None:
    lines = []
    for number in (3, 5):
        world = World.of(WorldSeed(number), size=8)
        lines += [f"# world {number}", *case_lines(write_world(world, tmp_path))]
    for fault in ("wrong_port", "node_pressure", "network_policy"):
        folder = write_cluster_world(
            cluster_world(308, test=False, fault=fault, size=6), tmp_path / fault
        )
        lines += [f"# cluster, {fault}", *case_lines(folder)]
    assert_kept(FOLDER / "worlds.txt", "\n".join([*lines, ""]))
