"""Changes that were reported to the bot become evidence of an investigation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Alert
from faultline.bot.investigation.collecting import ReportedChangesConnector
from faultline.bot.store.changes import ReportedChange, ReportedChanges
from faultline.connectors.shared.contract.base import Collected, collect_from
from tests.connectors.conftest import ALERT_AT, ONSET, request_for
from tests.databases import store_engine


@pytest.fixture
def changes(database_url: str) -> Iterator[ReportedChanges]:
    engine = store_engine(database_url)
    yield ReportedChanges(engine)
    engine.dispose()


def collected(changes: ReportedChanges, folder: Path, **labels: str) -> Collected:
    alert = Alert(
        source="test", title="slow", started_at=ALERT_AT, service="checkout", labels=labels
    )
    request = request_for(folder, services=("checkout",), alert=alert)
    return asyncio.run(collect_from(ReportedChangesConnector(changes), request))


def deploy(name: str, minutes: float, **place: str) -> ReportedChange:
    at = ONSET + timedelta(minutes=minutes)
    return ReportedChange(name, at, "payments", "deploy", f"Deploy {name}", place=place)


def test_they_are_rows_of_the_changes_of_that_time(
    changes: ReportedChanges, tmp_path: Path
) -> None:
    changes.report([deploy("v2", -1), deploy("v1", -60), deploy("ancient", -60 * 24 * 30)])
    found = collected(changes, tmp_path)
    table = conform(found.tables["changes"], "changes", "changes").sort("time")
    assert table["id"].to_list() == ["v1", "v2"]
    assert table["author"].to_list() == [None, None]
    [item] = found.items
    assert (item.rows, item.services) == (2, ("payments",))


def test_old_and_new_version_are_fields_of_the_row(
    changes: ReportedChanges, tmp_path: Path
) -> None:
    changes.report([replace(deploy("v2", -1), before="v1", after="v2")])
    (row,) = collected(changes, tmp_path).tables["changes"].iter_rows(named=True)
    assert (row["before"], row["after"]) == ("v1", "v2")


def test_those_of_another_place_are_left_out(changes: ReportedChanges, tmp_path: Path) -> None:
    told = [
        deploy("staging", -3, env="staging"),
        deploy("us", -2, environment="prod", cluster="prod-us"),
        deploy("eu", -1, deployment_environment="prod", cluster="prod-eu"),
        deploy("anywhere", -4),
    ]
    changes.report(told)
    found = collected(changes, tmp_path, env="prod", cluster="prod-eu")
    assert sorted(found.tables["changes"]["id"]) == ["anywhere", "eu"]
    assert len(collected(changes, tmp_path).tables["changes"]) == 4


def test_where_nothing_was_ever_reported_nothing_is_said(
    changes: ReportedChanges, tmp_path: Path
) -> None:
    assert collected(changes, tmp_path).items == ()
    changes.report([deploy("ancient", -60 * 24 * 30)])
    [item] = collected(changes, tmp_path).items
    assert item.rows == 0, "asked, and none at that time"
