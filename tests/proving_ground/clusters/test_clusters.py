"""Worlds with clusters: the same seed gives the same bytes, the connector finds what was broken,
and worlds without clusters stay as they were."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from faultline.analysis.case.folder import read_case
from proving_ground.clusters.__main__ import main
from proving_ground.clusters.collecting import cluster_world, write_cluster_world
from proving_ground.worlds.cluster.snapshot import snapshot_of
from proving_ground.worlds.cluster_faults import CLUSTER_FAULTS
from proving_ground.worlds.faults import FAULTS
from proving_ground.worlds.world import World

FACT_OF = {
    "wrong_selector": {"selector_matches_nothing"},
    "wrong_port": {"port_not_served"},
    "network_policy": {"traffic_blocked"},
    "missing_backend": {"route_to_nothing"},
    "quota_used_up": {"quota_exceeded"},
    "unschedulable_pods": {"unschedulable"},
    "image_missing": {"image_unavailable"},
    "config_missing": {"reference_missing"},
    "wrong_probe": {"probe_misconfigured"},
    "claim_pending": {"volume_unavailable"},
    "scaling_capped": {"autoscaler_at_maximum"},
    "out_of_memory": {"killed_for_memory"},
    "crash_looping": {"crash_loop"},
    "node_lost": {"node_not_ready"},
    "node_pressure": {"node_under_pressure"},
    "zone_cordoned": {"node_cordoned"},
}


def incident(fault: str) -> World:
    """The first world of a few seeds in which this fault raises an alert."""
    # With the first of them every fault raises one: each that does not is a world for nothing.
    for number in range(308, 338):
        world = cluster_world(number, test=False, fault=fault, size=6)
        if world.fault is not None:
            return world
    raise AssertionError(f"{fault}: no incident in thirty seeds")


@pytest.mark.parametrize("fault", sorted(FACT_OF))
def test_the_connector_reports_what_the_fault_left_behind(tmp_path: Path, fault: str) -> None:
    world = incident(fault)
    path = write_cluster_world(world, tmp_path)
    facts = set(read_case(path).states["fact"])
    assert facts & FACT_OF[fault]
    label = json.loads((path / "label.json").read_text())
    assert label["subject"] == snapshot_of(world).culprit


def test_every_fault_is_tried() -> None:
    assert set(FACT_OF) == set(CLUSTER_FAULTS)
    assert not set(FAULTS) & set(CLUSTER_FAULTS)


def test_a_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        main(["--seeds", "7:8", "--size", "6", "--out", str(tmp_path / name)])
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


def digests(folder: Path) -> dict[str, str]:
    """By path, what each file holds."""
    found = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            found[str(file.relative_to(folder))] = content
    return found
