"""Where the culprit lies and what telemetry there is, as far as a case tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faultline.evaluation.labels import DEFAULT_SETTING, CaseLabel, CaseSetting, read_setting
from proving_ground.worlds.seeds import WorldSeed
from proving_ground.worlds.world import World
from proving_ground.worlds.writing import write_world


def told(folder: Path, **truth: Any) -> CaseSetting:
    (folder / "truth.json").write_text(json.dumps(truth))
    return read_setting(folder, None)


@pytest.mark.parametrize(
    ("cause", "distance"),
    [
        ({"where": "below", "hops": 0}, "at the alert"),
        ({"where": "below", "hops": 1}, "1 call away"),
        ({"where": "below", "hops": 2}, "2 calls away"),
        ({"where": "below", "hops": 5}, "3 or more calls away"),
        ({"where": "above", "hops": None}, "above the alert"),
        ({"where": "beside", "hops": None}, "beside the alert"),
    ],
)
def test_distance_is_counted_in_calls(tmp_path: Path, cause: dict[str, Any], distance: str) -> None:
    assert told(tmp_path, cause=cause).distance == distance


def test_a_simulated_world_tells_its_conditions(tmp_path: Path) -> None:
    folder = write_world(World.of(WorldSeed(3), size=6), tmp_path)
    conditions = dict(read_setting(folder, None).conditions)
    truth = json.loads((folder / "truth.json").read_text())
    assert conditions["size"] == "1 to 20"
    assert conditions["topology"] == truth["telemetry"]["topology"]
    assert conditions["spans"] == ("yes" if truth["telemetry"]["spans"] else "no")


def test_a_label_may_give_the_path(tmp_path: Path) -> None:
    found = read_setting(tmp_path, CaseLabel(subject="db", path=("web", "cart", "db")))
    assert (found.path, found.distance) == (("web", "cart", "db"), "2 calls away")


def test_a_case_that_tells_nothing_has_no_setting(tmp_path: Path) -> None:
    assert read_setting(tmp_path, None) == DEFAULT_SETTING
    (tmp_path / "truth.json").write_text("[1]")
    assert read_setting(tmp_path, CaseLabel()) == DEFAULT_SETTING
