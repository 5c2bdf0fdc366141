"""Conditions that people reported in public, made again as case folders, and what is said of
them."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from faultline.analysis.case.tables import read_table, write_table
from faultline.bot.answer.replay import as_json, replay

CASES = Path(__file__).parents[2] / "data" / "field" / "cases"


def answer_of(folder: Path) -> dict[str, Any]:
    return as_json(replay(folder))


def steps_of(folder: Path) -> str:
    return " ".join(step.text for step in replay(folder).view.next_steps)


def test_a_rollback_names_where_to_go_back_to(tmp_path: Path) -> None:
    folder = tmp_path / "case"
    shutil.copytree(CASES / "rollout-crashes", folder)
    answer = answer_of(folder)
    assert answer["headline"].startswith("Deploy of orders 2.2.0 took it down")
    assert "Roll back orders 2.2.0 to 2.1.0" in steps_of(folder)


def test_pods_that_were_evicted_last_week_are_history(tmp_path: Path) -> None:
    shutil.copytree(CASES / "old-evictions", tmp_path / "case")
    answer = answer_of(tmp_path / "case")
    assert "orders 2.2.0" in answer["headline"]
    assert "KeyError" in answer["headline"]
    assert "evicted" not in answer["headline"]


def test_nodes_that_run_none_of_its_pods_are_not_drained(tmp_path: Path) -> None:
    folder = tmp_path / "case"
    shutil.copytree(CASES / "nodes-of-others", folder)
    answer = answer_of(folder)
    assert answer["headline"].startswith("Deploy of etl-worker 9 ")
    assert "drain" not in steps_of(folder)


def test_a_database_that_was_scaled_to_zero_is_the_cause(tmp_path: Path) -> None:
    """The case as it is once the database's own objects are collected too."""
    folder = tmp_path / "case"
    shutil.copytree(CASES / "database-scaled-to-zero", folder)
    states = read_table(folder, "states")
    row = dict.fromkeys(states.columns) | {
        "kind": "StatefulSet",
        "name": "postgres",
        "fact": "scaled_to_zero",
        "namespace": "shop",
        "service": "postgres",
        "field": "spec.replicas",
        "value": "0",
        "since": datetime(2026, 11, 29, 2, 4, 20, tzinfo=UTC),
        "restored_by": "Argo CD",
    }
    write_table(folder, "states", pl.concat([states, pl.DataFrame([row], schema=states.schema)]))
    answer = answer_of(folder)
    assert "because postgres is scaled to zero" in answer["headline"]
    assert "Argo CD may restore what is in Git within 3 minutes: revert it there." in steps_of(
        folder
    )
