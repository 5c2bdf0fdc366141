"""The connector of Splunk Observability Cloud against a local server that answers as its API
reference says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.vendors.splunk_observability import CONNECTOR, rows
from faultline.connectors.vendors.splunk_observability.connector import (
    ALERTS,
    EVENTS,
    POINTS,
    SERIES,
    SplunkObservabilityConnector,
)
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import splunk_observability as stand_in


def connector(server: LocalServer, more: Any = None, **own: Any) -> SplunkObservabilityConnector:
    """As the settings build it, before the stand-in."""
    stand_in.serve(server)
    given = stand_in.settings(server.url) | (more or {})
    given["splunk_observability"] |= own
    built = CONNECTOR.configured(Settings.model_validate(given))
    assert isinstance(built, SplunkObservabilityConnector)
    return built


def test_golden_signals_of_both_windows(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server))
    assert found.missing == ()
    table = conform(found.tables["metrics"], "metrics", "metrics")
    early = table.filter(pl.col("time") < ONSET)
    late = table.filter(pl.col("time") >= ONSET)
    assert early.filter(signal="request_rate")["value"].unique().to_list() == [20]
    assert late.filter(signal="request_rate")["value"].unique().to_list() == [20]
    assert early.filter(signal="error_ratio")["value"].unique().to_list() == [0]
    assert late.filter(signal="error_ratio")["value"].unique().to_list() == [0.4]
    assert late.filter(signal="latency_p99")["value"].unique().to_list() == [2090]
    # Without the failed requests, of which half take longer than 2 s.
    assert late.filter(signal="latency_p50")["value"].unique().to_list() == [30]
    assert set(table["service"]) == {"checkout"}


def test_the_alert_and_the_deployment_are_read(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server))
    (monitor,) = conform(found.tables["monitors"], "monitors", "monitors").iter_rows(named=True)
    assert monitor["monitor"] == "checkout errors: error rate is high"
    assert (monitor["service"], monitor["state"]) == ("checkout", "firing")
    (change,) = conform(found.tables["changes"], "changes", "changes").iter_rows(named=True)
    assert (change["service"], change["kind"]) == ("checkout", "deploy")
    assert (change["title"], change["time"]) == ("Deploy checkout v42", stand_in.DEPLOYED)


def test_the_deployment_is_found_near_the_onset(server: LocalServer, tmp_path: Path) -> None:
    findings = diagnosed(tmp_path, connector(server)).findings
    assert any(one.kind == "change_near" and one.subject == "checkout" for one in findings)


def test_the_token_is_sent_and_nothing_but_get(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    collected(tmp_path, built)
    check = asyncio.run(built.check())
    assert check.ok
    assert server.methods == {"GET"}
    assert {one.headers["X-Sf-Token"] for one in server.asked} == {stand_in.TOKEN}


def test_one_environment_is_asked_and_aliases_are_too(server: LocalServer, tmp_path: Path) -> None:
    shop = {"services": {"shop": {"aliases": ["checkout"]}}}
    built = connector(server, shop, environment="prod")
    alert = Alert(source="test", title="t", started_at=ALERT_AT, service="shop")
    found = collected(tmp_path, built, services=("shop",), alert=alert)
    assert set(found.tables["metrics"]["service"]) == {"shop"}
    (query,) = {one.query["query"][0] for one in server.asked if one.path == POINTS}
    assert query == (
        "(sf_metric:service.request.count OR sf_metric:service.request.duration.ns.median OR "
        'sf_metric:service.request.duration.ns.p99) AND (sf_service:"shop" OR '
        'sf_service:"checkout") AND NOT sf_dimensionalized:true AND sf_environment:"prod"'
    )


def test_a_name_that_could_change_the_query_is_not_sent(
    server: LocalServer, tmp_path: Path
) -> None:
    hostile = ('x" OR sf_service:"y', "all*", "a\\b")
    collected(tmp_path, connector(server), services=("checkout", *hostile))
    queries = {one.query["query"][0] for one in server.asked if one.path in (SERIES, POINTS)}
    assert len(queries) == 1
    assert '(sf_service:"checkout")' in queries.pop()


def test_a_service_without_series_is_a_gap(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server), services=("checkout", "billing"))
    (gap,) = found.missing
    assert (gap.query, gap.unknown) == ("billing", True)


@pytest.mark.parametrize(
    ("status", "reason"), [(401, "authentication failed"), (403, "not permitted"), (429, "rate")]
)
def test_a_refusal_is_a_gap_and_check_says_what_is_needed(
    server: LocalServer, tmp_path: Path, status: int, reason: str
) -> None:
    built = connector(server)
    server.on(ALERTS, Reply({"code": status, "message": "secret-text"}, status=status))
    found = collected(tmp_path, built)
    assert {"metrics", "changes"} == set(found.tables)
    (gap,) = found.missing
    assert gap.kind == "monitors"
    assert reason in gap.reason
    assert "secret-text" not in str(found.missing)
    check = asyncio.run(built.check())
    assert check.ok
    assert "needs the token scope API" in check.line


def test_more_series_than_are_asked_for_is_said(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    server.on(SERIES, Reply({"count": 900, "isPartialCount": False, "results": stand_in.known()}))
    (item,) = [one for one in collected(tmp_path, built).items if one.kind == "metrics"]
    assert item.cut == "the first 500 series; there are more"


def test_alerts_outside_the_windows_and_events_that_are_no_change_are_left_out(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    old = stand_in.alert()
    old["events"][0]["timestamp"] -= 30 * 86_400_000
    server.on(ALERTS, Reply([old]))
    server.on(EVENTS, Reply([{"id": "1", "sf_eventType": "coffee", "timestamp": 1}]))
    found = collected(tmp_path, built)
    assert set(found.tables) == {"metrics"}
    assert found.missing == ()


def test_a_custom_metric_set_is_not_counted_twice() -> None:
    dimensions = {"sf_service": "checkout", "sf_error": "false"}
    own = rows.TimeSeries("a", rows.REQUESTS, dimensions)
    custom = rows.TimeSeries("b", rows.REQUESTS, {**dimensions, "sf_dimensionalized": "true"})
    at = 1_772_452_800_000
    points = rows.Points({"a": [[at, 60.0]], "b": [[at, 60.0]], "c": [[at, None]]})
    found = rows.metric_rows([own, custom], points, ServiceNames(), 60)
    assert [(row[2], row[3]) for row in found] == [("request_rate", 1.0), ("error_ratio", 0.0)]


def test_an_alert_that_is_over_has_both_times() -> None:
    at = 1_772_452_800_000
    events = [
        rows.AlertEvent("ANOMALOUS", "errors", at, [rows.Input({"service.name": "checkout"})]),
        rows.AlertEvent("OK", "errors", at + 60_000),
        rows.AlertEvent("OK", "errors", None),
    ]
    found = list(
        rows.alert_rows([rows.Alert("1", detectLabel="errors", events=events)], ServiceNames())
    )
    assert [(row[0], row[1], row[2]) for row in found] == [
        ("errors", "checkout", "firing"),
        ("errors", "checkout", "resolved"),
    ]


def test_without_a_realm_or_a_token_it_is_not_built() -> None:
    url = {"url": "https://api.us1.observability.splunkcloud.com"}
    for own in ({"token": "t"}, url):
        given = {"splunk_observability": own}
        assert CONNECTOR.configured(Settings.model_validate(given)) is None
