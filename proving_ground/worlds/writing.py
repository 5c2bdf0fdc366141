"""Writes a world as a case folder: what a bot would have collected, and the truth beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from proving_ground.worlds.clock import STEP_S
from proving_ground.worlds.moved_units import named_by_replay
from proving_ground.worlds.telemetry.conditions import Conditions, draw_conditions
from proving_ground.worlds.telemetry.conventions import CONVENTIONS
from proving_ground.worlds.telemetry.logs import logs_table
from proving_ground.worlds.telemetry.metrics import metrics_table
from proving_ground.worlds.telemetry.monitors import alert_document, iso_time, monitors_table
from proving_ground.worlds.telemetry.spans import spans_table
from proving_ground.worlds.telemetry.topology import topology_table
from proving_ground.worlds.truth import label_of, truth_of
from proving_ground.worlds.world import World

EVENTS_BEFORE = 60 * 60 // STEP_S
"""Logs and spans are fetched for an hour before the incident, not for the whole baseline."""


def write_world(world: World, folder: Path) -> Path:
    """Write the case folder of a world into `folder` and return its path. Equal worlds give equal
    bytes."""
    conditions = conditions_of(world)
    path = folder / f"{world.seed.text.split('-')[0]}-world-{world.seed.number:06d}"
    path.mkdir(parents=True, exist_ok=True)
    since = max(0, world.window[0] - EVENTS_BEFORE)
    tables = {
        "metrics": metrics_table(world, conditions),
        "logs": logs_table(world, conditions, since),
        "spans": spans_table(world, conditions, since),
        "changes": changes_table(world),
        "topology": topology_table(world, conditions),
        "monitors": monitors_table(world),
    }
    for name, table in tables.items():
        if table.height:
            table.write_parquet(path / f"{name}.parquet", compression="zstd")
    alert = alert_document(world, conditions)
    named = is_named(world, tables, alert)
    _write_json(path / "alert.json", alert)
    _write_json(path / "scope.json", scope_document(world, since))
    _write_json(path / "label.json", label_of(world, named=named))
    watched = set(tables["metrics"]["service"].unique()) if tables["metrics"].height else set()
    truth = truth_of(world, conditions, named=named)
    truth["named_by_replay"] = named_by_replay(world, watched)
    _write_json(path / "truth.json", truth)
    return path


def changes_table(world: World) -> pl.DataFrame:
    """time, service, kind, id, title, author, link, files, diff."""
    if not world.changes:
        return pl.DataFrame()
    text = {"author": pl.String, "files": pl.String, "diff": pl.String}
    rows = [
        {
            "time": int(change.at_s) * 1_000_000_000,
            "service": change.unit,
            "kind": change.kind,
            "id": change.id,
            "title": change.title,
            "author": change.author,
            "files": change.files,
            "diff": change.diff,
        }
        for change in world.changes
    ]
    table = pl.DataFrame(rows, schema_overrides=text)
    return table.with_columns(pl.col("time").cast(pl.Datetime("ns")).dt.replace_time_zone("UTC"))


def scope_document(world: World, since: int) -> dict[str, Any]:
    """scope.json: the incident window and the baseline before it."""
    first, last = (iso_time(world.clock.at(step)) for step in world.window)
    begin = iso_time(world.clock.at(0))
    events = [[iso_time(world.clock.at(since)), first]]
    return {
        "incident": [first, last],
        "baseline": [[begin, first]],
        "baseline_logs": events,
        "baseline_spans": events,
    }


def is_named(world: World, tables: dict[str, pl.DataFrame], alert: dict[str, Any]) -> bool:
    """Whether the culprit's name stands anywhere in the evidence, so that an answer can name it."""
    if world.fault is None:
        return False
    name = world.fault.subject(world.graph)
    if name in json.dumps(alert):
        return True
    for table in tables.values():
        for column in table.columns:
            if table[column].dtype != pl.String:
                continue
            if table[column].unique().str.contains(name, literal=True).any():
                return True
    return False


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def conditions_of(world: World) -> Conditions:
    """The telemetry conditions that `write_world` uses for a world."""
    return draw_conditions(
        world.graph, world.rule.unit, world.window, world.seed, tuple(CONVENTIONS)
    )
