"""Worlds are reproducible, honest about their cause, and readable as case folders."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache

import numpy as np
import pytest

from faultline.analysis.case.folder import read_case
from faultline.evaluation.labels import read_label
from proving_ground.worlds.__main__ import main
from proving_ground.worlds.alerts import Signals
from proving_ground.worlds.changes import KINDS, OF_KIND, THEMES, draw_change
from proving_ground.worlds.faults import FAULTS, targets_of
from proving_ground.worlds.moved_units import named_by_replay
from proving_ground.worlds.random_graph import random_graph
from proving_ground.worlds.seeds import WorldSeed
from proving_ground.worlds.world import World, WorldBuilder
from proving_ground.worlds.writing import write_world

TABLES = ("metrics", "logs", "spans", "changes", "topology", "monitors")


@cache
def incident(fault: str) -> tuple[WorldBuilder, World]:
    """The first world of a few seeds in which this fault raises an alert, and its builder."""
    # No world of eight has a second cluster.
    size = 12 if fault == "bad_cluster" else 8
    for number in range(200, 240):
        seed = WorldSeed(number)
        if not targets_of(FAULTS[fault], random_graph(seed, size)):
            continue
        builder = WorldBuilder(seed, size=size, fault=fault)
        world = builder.build()
        if world.fault is not None:
            return builder, world
    raise AssertionError(f"{fault}: no incident in forty seeds")


@pytest.mark.parametrize("fault", list(FAULTS))
def test_every_fault_raises_an_alert_that_the_replay_does_not(fault):
    builder, world = incident(fault)
    assert world.fault is not None
    assert world.fault.kind.name == fault
    begin = world.fault.begins
    rule = world.rule
    with_fault = Signals(world.graph, world.history, world.counts, world.seed)
    fired = rule.fires(with_fault.series(rule.unit, rule.signal, rule.window), begin)
    calm = builder.replay_without_fault().series(rule.unit, rule.signal, rule.window)
    assert fired == world.alert_step
    assert rule.fires(calm, 0) is None
    assert world.window[0] < world.alert_step < world.window[1]


def test_before_the_fault_both_worlds_are_equal():
    builder, world = incident("slow_code")
    assert world.fault is not None
    before = slice(0, world.fault.begins)
    np.testing.assert_array_equal(
        world.counts.arrived[:, before], builder.calm_counts.arrived[:, before]
    )


def test_a_seed_gives_the_same_bytes(tmp_path):
    seed = WorldSeed(3, test=True)
    first = write_world(World.of(seed, size=10), tmp_path / "one")
    second = write_world(World.of(seed, size=10), tmp_path / "two")
    names = sorted(path.name for path in first.iterdir())
    assert names == sorted(path.name for path in second.iterdir())
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_the_two_streams_share_no_world():
    train, test = World.of(WorldSeed(3), size=10), World.of(WorldSeed(3, test=True), size=10)
    assert [unit.name for unit in train.graph.units] != [unit.name for unit in test.graph.units]


def test_every_table_is_valid(tmp_path):
    main(["--seeds", "40:45", "--out", str(tmp_path), "--test", "--size", "8"])
    seen: Counter[str] = Counter()
    for folder in sorted(tmp_path.iterdir()):
        case = read_case(folder)
        label = read_label(folder)
        assert label is not None
        assert label.gradable
        truth = json.loads((folder / "truth.json").read_text())
        assert truth["stream"] == "test"
        for name in TABLES:
            seen[name] += getattr(case, name).height > 0
        assert case.metrics["time"].max() <= case.scope.incident.end
        assert case.scope.baseline[0].end == case.scope.incident.start
        assert set(label.decoys) <= set(case.changes["id"].to_list())
        assert label.change == "none" or label.change in case.changes["id"].to_list()
    assert all(seen[name] for name in TABLES)


@pytest.fixture(scope="module")
def calm_worlds() -> list[World]:
    """Those of a few seeds in which nothing breaks."""
    worlds = [World.of(WorldSeed(number), size=8) for number in range(60, 68)]
    calm = [world for world in worlds if world.fault is None]
    assert calm
    return calm


def test_calm_worlds_have_no_cause(tmp_path, calm_worlds):
    for world in calm_worlds:
        folder = write_world(world, tmp_path)
        label = read_label(folder)
        assert label is not None
        assert (label.subject, label.change) == (None, "none")
        assert label.verdict == "no_active_incident"
        assert "cause" not in json.loads((folder / "truth.json").read_text())


def test_guilty_changes_look_like_harmless_ones():
    fine = [draw_change(np.random.default_rng(n), 0, "cart", "config", "pool", bad=False)
            for n in range(300)]  # fmt: skip
    bad = [draw_change(np.random.default_rng(n), 0, "cart", "config", "pool", bad=True)
           for n in range(300)]  # fmt: skip
    for one, other in zip(fine, bad, strict=True):
        assert (one.title, one.id, one.author, one.files) == (
            other.title, other.id, other.author, other.files,
        )  # fmt: skip
        assert (one.diff is None) == (other.diff is None)
    assert any(change.diff for change in bad)
    assert any(change.title in THEMES["pool"].titles for change in bad)


def test_every_fault_with_a_change_has_a_theme_that_harmless_ones_have_too():
    for kind in FAULTS.values():
        assert kind.theme in THEMES
        assert set(kind.change_kinds) <= set(KINDS)
    harmless = {theme for themes in OF_KIND.values() for theme in themes}
    guilty = {kind.theme for kind in FAULTS.values() if kind.changed}
    assert guilty <= harmless


def test_the_replay_names_the_lowest_unit_that_the_fault_moved():
    _, world = incident("slow_code")
    assert world.fault is not None
    names = {unit.name for unit in world.graph.units}
    culprit = world.fault.subject(world.graph)
    named = named_by_replay(world, names)
    assert culprit in named
    callers = {world.graph.units[unit].name for unit in world.graph.hops_to(world.fault.target)}
    # Of those that the fault moved, whoever calls the culprit stands behind it.
    above = [named.index(name) for name in named if name in callers - {culprit}]
    assert all(named.index(culprit) < place for place in above)
    assert culprit not in named_by_replay(world, names - {culprit})


def test_the_replay_names_nobody_in_a_calm_world(calm_worlds):
    for world in calm_worlds:
        assert named_by_replay(world, {unit.name for unit in world.graph.units}) == []
