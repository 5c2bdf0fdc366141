"""The Honeycomb connector against a local server in the shapes of its specification."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Window
from faultline.bot.settings import Settings
from faultline.connectors.shared.rows.log_windows import CountGrid
from faultline.connectors.vendors.honeycomb import CONNECTOR, rows
from faultline.connectors.vendors.honeycomb import connector as honeycomb
from faultline.connectors.vendors.honeycomb.connector import (
    API,
    LIMITS,
    MOST_SERVICES,
    HoneycombConnector,
    QueryHttp,
)
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import honeycomb as stand_in


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(honeycomb, "PAUSE_S", 0.01)


def connector(server: LocalServer, **own: Any) -> HoneycombConnector:
    """As the settings build it, before the stand-in."""
    stand_in.serve(server)
    values = stand_in.settings(server.url)
    values["honeycomb"] |= own
    built = CONNECTOR.configured(Settings.model_validate(values))
    assert isinstance(built, HoneycombConnector)
    return built


def test_golden_signals_are_those_of_one_query(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server))
    assert found.missing == ()
    table = conform(found.tables["metrics"], "metrics", "metrics")
    early, late = (table.filter(pl.col("time") < ONSET), table.filter(pl.col("time") >= ONSET))

    def median(signal: str, of: pl.DataFrame) -> Any:
        return of.filter(pl.col("signal") == signal)["value"].median()

    assert median("request_rate", early) == 20
    assert (median("error_ratio", early), median("error_ratio", late)) == (0, 0.4)
    assert (median("latency_p50", late), median("latency_p99", late)) == (30, 2090)
    (item,) = (one for one in found.items if one.kind == "metrics")
    assert item.link == "https://ui.honeycomb.io/shop/environments/prod/result/HprJhV1fYy"
    assert server.paths().count(stand_in.QUERIES) == 1


def test_markers_are_changes_near_the_onset(server: LocalServer, tmp_path: Path) -> None:
    (folder := tmp_path / "case").mkdir()
    table = collected(tmp_path, connector(server)).tables["changes"]
    (change,) = conform(table, "changes", "changes").iter_rows(named=True)
    assert (change["id"], change["service"], change["kind"]) == ("ab12cd", "checkout", "deploy")
    assert change["link"] == "https://ci.example.com/42"
    findings = diagnosed(folder, connector(server)).findings
    assert any(one.kind == "change_near" and "ab12cd" in str(one.series) for one in findings)


def test_markers_outside_the_window_and_of_other_types() -> None:
    at = round(ONSET.timestamp())
    window = Window(start=ONSET - timedelta(hours=1), end=ALERT_AT)
    one = rows.Marker("a", at, "feature on", "flag", "javascript:alert(1)")
    old = rows.Marker("b", at - 10**7, "old", "deploy")
    (row,) = rows.marker_rows([one, old, rows.Marker("c")], None, window, frozenset({"deploy"}))
    assert (row[2], row[4], row[6]) == ("config", "feature on", None)


def test_without_the_plan_markers_alone_are_read(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server, run_queries=False))
    assert found.missing == ()
    assert set(found.tables) == {"changes"}
    assert stand_in.QUERIES not in server.paths()


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "authentication failed"),
        (402, "plan"),
        (403, "not permitted"),
        (422, "no such column"),
    ],
)
def test_a_refused_query_is_a_gap_and_markers_stand(
    server: LocalServer, tmp_path: Path, status: int, reason: str
) -> None:
    built = connector(server)
    server.on(stand_in.QUERIES, Reply({"error": "no such column"}, status=status))
    found = collected(tmp_path, built)
    assert any(reason in one.reason for one in found.missing)
    assert found.tables["changes"].height == 1


def test_a_query_that_does_not_end_is_a_gap(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    server.on(stand_in.RESULT, Reply({"id": "x", "complete": False}))
    found = collected(tmp_path, built)
    assert any("still running" in one.reason for one in found.missing)


def test_a_service_without_a_dataset_is_named(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server), services=("checkout", "payments"))
    assert [(one.query, one.unknown) for one in found.missing] == [("payments", True)]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/1/markers/checkout", {"message": "x"}),
        ("POST", "/1/queries/checkout", {"calculations": [], "havings": []}),
        ("POST", "/1/queries/checkout/../../events/checkout", {}),
        ("DELETE", "/1/datasets/checkout", None),
    ],
)
def test_nothing_but_queries_can_be_sent(
    server: LocalServer, method: str, path: str, body: Any
) -> None:
    async def send() -> None:
        http = QueryHttp("honeycomb", server.url, limits=LIMITS)
        async with http.open() as session:
            await session._client.request(method, server.url + path, json=body)

    with pytest.raises(ConnectorError, match="queries only"):
        asyncio.run(send())
    assert server.asked == []


def test_the_key_is_sent_and_the_region_chooses_the_address(
    server: LocalServer, tmp_path: Path
) -> None:
    collected(tmp_path, connector(server))
    assert {one.headers["X-Honeycomb-Team"] for one in server.asked} == {stand_in.KEY}
    for region, url in API.items():
        own = {"honeycomb": {"api_key": "k", "region": region}}
        built = CONNECTOR.configured(Settings.model_validate(own))
        assert isinstance(built, HoneycombConnector)
        assert built._http.base_url == url


def test_check_warns_of_a_key_that_can_write(server: LocalServer) -> None:
    built = connector(server)
    said = asyncio.run(built.check())
    assert said.ok
    assert "Honeycomb shop/prod" in said.line
    assert "warning" not in said.line
    access = {"markers": True, "queries": False}
    server.on("/1/auth", Reply({"api_key_access": access, "team": {"slug": "shop"}}))
    line = asyncio.run(built.check()).line
    assert "warning: the key can also write (markers)" in line
    assert "need the permission to run queries" in line
    server.on("/1/auth", Reply({"error": "unknown API key"}, status=401))
    assert not asyncio.run(built.check()).ok


def test_the_page_names_limits_as_they_are() -> None:
    page = " ".join(
        (Path(__file__).parents[2] / "docs/connectors/honeycomb.md").read_text().split()
    )
    pace = f"{LIMITS.requests_per_s:g} requests a second and {LIMITS.concurrency} at once"
    limits = f"{LIMITS.max_bytes // 1024**2} MiB and {LIMITS.deadline_s:g} seconds"
    assert f"At most {pace}, {limits}" in page
    assert f"at most {MOST_SERVICES} services" in page
    for column in (rows.ERROR, rows.DURATION, rows.KIND):
        assert f"`{column}`" in page


def test_hostile_results_are_left_out() -> None:
    group = rows._Group("soon", {"COUNT": 1})
    data = rows._Data([group], [group, rows._Group("2026-03-02T11:50:00Z", {"COUNT": "many"})])
    result = rows.QueryResult(True, data, rows._Links("javascript:x"))
    assert rows.golden_rows(result, "a", CountGrid(0, 60, 5)) == []
    assert result.link is None
