"""Changes that were reported to the bot become evidence of an investigation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Alert, Window
from faultline.bot.investigation.collecting import ReportedChangesConnector
from faultline.bot.store.changes import MOST_READ, ReportedChange, ReportedChanges
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


def test_every_field_reaches_its_column(changes: ReportedChanges, tmp_path: Path) -> None:
    at = ONSET - timedelta(minutes=1)
    full = ReportedChange(
        "v2", at, "payments", "deploy", "Deploy v2", "jo", "https://ci/2", "a.py", "+x",
        before="v1", after="v2",
    )  # fmt: skip
    bare = ReportedChange("v1", at - timedelta(minutes=1), "payments", "deploy", "Deploy v1")
    changes.report([full, bare])
    table = conform(collected(changes, tmp_path).tables["changes"], "changes", "changes")
    first, second = table.sort("time").iter_rows(named=True)
    assert second["time"] == at
    columns = ("service", "kind", "id", "title", "author", "link", "files", "diff")
    assert [second[column] for column in columns] == [
        "payments", "deploy", "v2", "Deploy v2", "jo", "https://ci/2", "a.py", "+x",
    ]  # fmt: skip
    empty = ("author", "link", "files", "diff", "before", "after")
    assert [first[column] for column in empty] == [None] * len(empty)


def test_the_time_is_from_the_first_baseline_to_the_end_of_the_incident(
    changes: ReportedChanges, tmp_path: Path
) -> None:
    alert = Alert(source="test", title="slow", started_at=ALERT_AT, service="checkout")
    scope = request_for(tmp_path, services=("checkout",), alert=alert).scope
    first = min(period.start for period in scope.baseline)
    assert first < scope.incident.start
    just = timedelta(microseconds=1)
    changes.report(
        ReportedChange(name, at, "payments", "deploy", name)
        for name, at in {
            "too early": first - just,
            "first": first,
            "last": scope.incident.end - just,
            "too late": scope.incident.end,
        }.items()
    )
    found = collected(changes, tmp_path)
    assert sorted(found.tables["changes"]["id"]) == ["first", "last"]
    [item] = found.items
    assert item.window == Window(start=first, end=scope.incident.end)
    assert item.cut is None


@pytest.mark.parametrize(
    ("reported", "cut"), [(MOST_READ - 1, None), (MOST_READ, "the latest 2,000")]
)
def test_a_list_that_may_be_cut_says_so(
    changes: ReportedChanges, tmp_path: Path, reported: int, cut: str | None
) -> None:
    changes.report(deploy(f"v{number}", -number / 1000) for number in range(reported))
    [item] = collected(changes, tmp_path).items
    assert item.cut == cut
