"""What several connectors brought becomes one case, in which nothing is told twice."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl

from analysis.case.folder import Case, read_case
from analysis.case.tables import SCHEMAS
from analysis.vocabulary import Alert
from bot.investigation.collecting import assemble, store_part
from bot.store.case_store import CaseStore
from connectors.base import Collected
from tests.connectors.conftest import ALERT_AT, ONSET, request_for


def table(name: str, *rows: dict[str, Any]) -> pl.DataFrame:
    """Rows of a table, with nulls where nothing is said."""
    columns = SCHEMAS[name].columns
    whole = [dict.fromkeys(columns) | row for row in rows]
    return pl.DataFrame(whole, schema=columns)


def assembled(folder: Path, **brought: Collected) -> Case:
    """The case of what these connectors brought."""
    cases = CaseStore(folder / "cases")
    names = [name.replace("_", " ") for name in brought]
    for name, collected in zip(names, brought.values(), strict=True):
        scratch = folder / name
        (scratch / "files").mkdir(parents=True)
        store_part(name, collected, scratch, cases, "case")
    alert = Alert(source="x", title="slow", started_at=ALERT_AT, service="payments")
    scope = request_for(folder, services=("payments",), alert=alert).scope
    assemble(alert, scope, names, cases, "case")
    with cases.checkout("case") as checked_out:
        return read_case(checked_out)


def deploy(name: str, minutes: float, title: str) -> Collected:
    at = ONSET + timedelta(minutes=minutes)
    own = {"time": at, "service": "payments", "kind": "deploy", "id": name, "title": title}
    return Collected({"changes": table("changes", own)})


def test_a_rollout_that_was_reported_too_is_one_change(tmp_path: Path) -> None:
    rolled_out = "Rollout of payments: image payments:1.0 -> payments:1.1"
    case = assembled(
        tmp_path,
        kubernetes_eu=deploy("payments-5c9", -2, rolled_out),
        github=deploy("v1.1", -4, "Deployed v1.1"),
        changes=deploy("v1.1", -1, "Deploy payments v1.1"),
    )
    (row,) = case.changes.to_dicts()
    assert (row["id"], row["time"]) == ("v1.1", ONSET - timedelta(minutes=2))
