"""What Grafana Cloud has besides: objectives and incidents by the Grafana connector, and metrics,
logs and traces by those of Prometheus, Loki and Tempo with an access policy's token."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import promql_parser
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.registry import CONNECTORS
from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.vendors.grafana import CONNECTOR
from faultline.connectors.vendors.grafana.connector import GrafanaConnector
from faultline.connectors.vendors.grafana.incidents import INCIDENTS, MOST_INCIDENTS
from faultline.connectors.vendors.grafana.objectives import (
    MOST_SLOS,
    SIGNAL,
    SLOS,
    UUID_LABEL,
    GrafanaSlo,
    burn_path,
    burn_query,
)
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ALERT_AT, ONSET, OpenMetrics, running_prometheus
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import grafana as stand_in

BURN = burn_path(stand_in.SOURCE)


def connector(server: LocalServer, **own: Any) -> GrafanaConnector:
    """As the settings build it, before the stand-in."""
    stand_in.serve(server)
    values = stand_in.settings(server.url)
    values["grafana"] |= own
    built = CONNECTOR.configured(Settings.model_validate(values))
    assert isinstance(built, GrafanaConnector)
    return built


def burn(found: Collected) -> pl.DataFrame:
    """The rows of burn rates."""
    return conform(found.tables["metrics"], "metrics", "metrics").filter(signal=SIGNAL)


def details(found: Collected, kind: str) -> dict[str, str]:
    """What the items of that kind say."""
    return {k: v for one in found.items if one.kind == kind for k, v in one.details.items()}


def test_the_burn_rate_of_the_services_objective_is_a_series(
    server: LocalServer, tmp_path: Path
) -> None:
    found = collected(tmp_path, connector(server))
    assert found.missing == ()
    table = burn(found)
    assert table["service"].unique().to_list() == ["checkout"]
    assert json.loads(table["labels"][0]) == {"slo": "checkout availability"}
    # 7 % of requests fail where 0.5 % may.
    late, early = table.filter(pl.col("time") >= ONSET), table.filter(pl.col("time") < ONSET)
    assert late["value"].min() == pytest.approx(14)
    assert early["value"].max() == pytest.approx(0.2)
    assert details(found, "metrics") == {
        "checkout availability": "objective 99.5 % over 28d; "
        "burned at up to 14 times the allowed rate"
    }
    (asked,) = (one for one in server.asked if one.path == BURN)
    assert "other" not in asked.query["query"][0], "an objective of a service out of scope"
    (item,) = (one for one in found.items if one.kind == "metrics")
    assert item.link is not None
    assert item.link.startswith("https://grafana.example.com/explore?")


def test_a_burning_objective_is_a_symptom_of_its_service(
    server: LocalServer, tmp_path: Path
) -> None:
    findings = diagnosed(tmp_path, connector(server)).findings
    moved = [one for one in findings if one.series.get("signal") == SIGNAL]
    assert [(one.subject, one.onset) for one in moved] == [("checkout", ONSET)]


def test_the_objective_that_the_alert_is_of_counts_without_a_label(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    server.on(SLOS, Reply({"slos": [{**stand_in.slo(), "labels": None}]}))
    assert collected(tmp_path, built).tables.get("metrics") is None
    labels = {UUID_LABEL: stand_in.SLO}
    alert = Alert(
        source="test", title="Burns", started_at=ALERT_AT, service="checkout", labels=labels
    )
    assert burn(collected(tmp_path, built, alert=alert)).height


def test_what_no_objective_can_be_asked_by_is_left_out(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    hostile = [
        stand_in.slo(uuid='x"} or vector(1) #'),
        stand_in.slo(target=1.0),
        {**stand_in.slo(), "objectives": None},
        {**stand_in.slo(), "destinationDatasource": None},
    ]
    server.on(SLOS, Reply({"slos": hostile}))
    assert collected(tmp_path, built).tables.get("metrics") is None
    assert BURN not in server.paths()


def test_of_many_objectives_some_are_asked_and_it_says_so(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    many = [stand_in.slo(uuid=f"u{number}") for number in range(MOST_SLOS + 3)]
    server.on(SLOS, Reply({"slos": many}))
    found = collected(tmp_path, built)
    cuts = [one.cut for one in found.items if one.kind == "metrics"]
    assert cuts == [f"3 of {MOST_SLOS + 3} objectives left out"]


def test_a_real_prometheus_computes_the_share_that_fails(tmp_path: Path) -> None:
    """Of a ratio with two groups by their requests, of another objective by its series."""
    series, at = OpenMetrics(), int(ALERT_AT.timestamp())
    of_ratio, of_other = f'{UUID_LABEL}="ratio"', f'{UUID_LABEL}="other"'
    for t in range(at - 600, at + 1, 60):
        for group, every, good in (("busy", 90, 81), ("idle", 10, 10)):
            labels = f'{of_ratio},group="{group}"'
            series.add("grafana_slo_total_rate_5m", "gauge", labels, every, t)
            series.add("grafana_slo_success_rate_5m", "gauge", labels, good, t)
            series.add("grafana_slo_sli_5m", "gauge", labels, good / every, t)
        series.add("grafana_slo_sli_5m", "gauge", of_other, 0.75, t)
    query = burn_query([GrafanaSlo("ratio"), GrafanaSlo("other")])
    promql_parser.parse(query)
    with running_prometheus(tmp_path, series.finished()) as running:
        asked = {"query": query, "time": str(at)}
        answer = httpx.get(f"{running.url}/api/v1/query", params=asked).json()
    shares = {one["metric"][UUID_LABEL]: float(one["value"][1]) for one in answer["data"]["result"]}
    assert shares == {"ratio": pytest.approx(0.09), "other": pytest.approx(0.25)}


def test_a_declared_incident_stands_beside_ours(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server))
    assert details(found, "alert") == {
        "incident 42": "Checkout is down (Critical; active; service:checkout; "
        "since 02 Mar 11:51 UTC)"
    }
    (item,) = (one for one in found.items if one.kind == "alert")
    assert (item.rows, item.link) == (
        1,
        "https://grafana.example.com/a/grafana-irm-app/incidents/42",
    )
    (asked,) = (one for one in server.asked if one.path == INCIDENTS)
    assert json.loads(asked.body)["query"]["limit"] == MOST_INCIDENTS


def test_incidents_that_are_over_count_while_they_overlap(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    before, within = ONSET - timedelta(hours=3), ONSET + timedelta(minutes=2)
    given = [
        stand_in.incident(
            "1", "within", before, status="resolved", incidentEnd=stand_in.zulu(within)
        ),
        stand_in.incident(
            "2", "before", before, status="resolved", closedTime=stand_in.zulu(before)
        ),
        stand_in.incident("3", "no end", before, status="resolved"),
        stand_in.incident("4", "no start", before, createdTime="", incidentStart=""),
        stand_in.incident("5", "<b>\u202e\n" + "y" * 9000, ONSET, labels=None),
    ]
    server.on(INCIDENTS, Reply({"incidentPreviews": given, "cursor": {}}))
    said = details(collected(tmp_path, built), "alert")
    assert list(said) == ["incident 1", "incident 5"]
    assert "until 02 Mar 11:52 UTC" in said["incident 1"]
    assert len(said["incident 5"]) < 300
    assert "\u202e" not in said["incident 5"]


@pytest.mark.parametrize(
    ("path", "reply", "kind", "reason"),
    [
        (SLOS, Reply({"code": 4, "error": "x"}, 403), "metrics", "not permitted"),
        (SLOS, Reply({"slos": 3}), "metrics", "unexpected response"),
        (BURN, Reply({"status": "error"}, 500), "metrics", "refused"),
        (BURN, Reply({"data": {"result": [{"metric": 1}]}}), "metrics", "unexpected response"),
        (INCIDENTS, Reply({}, 403), "alert", "not permitted"),
        (INCIDENTS, Reply({"error": "bad query"}), "alert", "bad query"),
        (INCIDENTS, Reply(b"<html>"), "alert", "unexpected response"),
    ],
)
def test_refusals_and_bad_answers_of_an_app_are_gaps(
    server: LocalServer, tmp_path: Path, path: str, reply: Reply, kind: str, reason: str
) -> None:
    built = connector(server)
    server.on(path, reply)
    found = collected(tmp_path, built)
    assert [one.kind for one in found.missing] == [kind]
    assert reason in found.missing[0].reason
    assert found.tables["changes"].height


def test_an_app_that_is_not_installed_is_no_gap(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    for path in (SLOS, INCIDENTS):
        server.on(path, Reply({"message": "Plugin not found"}, 404))
    assert collected(tmp_path, built).missing == ()
    said = asyncio.run(built.check())
    assert said.ok
    assert said.line.endswith("not installed: SLOs, incidents")
    assert said.unread == ()


def test_check_names_the_role_that_an_app_wants(server: LocalServer) -> None:
    built = connector(server)
    server.on(SLOS, Reply({}, 403))
    said = asyncio.run(built.check())
    assert "alert rules, annotations, incidents can be read" in said.line
    assert "needs the role SLO Viewer" in said.line


@pytest.mark.parametrize(
    ("url", "own", "kinds"),
    [
        ("https://acme.grafana.net", {}, 4),
        ("https://grafana.example.com", {}, 2),
        ("https://grafana.net.example.com", {}, 2),
        ("https://acme.grafana.net", {"cloud_apps": False}, 2),
        ("https://grafana.example.com", {"cloud_apps": True}, 4),
    ],
)
def test_the_apps_are_asked_where_grafana_cloud_is(
    url: str, own: dict[str, Any], kinds: int
) -> None:
    built = CONNECTOR.configured(Settings.model_validate({"grafana": {"url": url, **own}}))
    assert built is not None
    assert len(built.kinds) == kinds


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", INCIDENTS.replace("QueryIncidentPreviews", "CreateIncident")),
        ("POST", SLOS),
        ("DELETE", f"{SLOS}/x"),
        ("POST", BURN),
    ],
)
def test_nothing_but_the_list_of_incidents_can_be_posted(
    server: LocalServer, method: str, path: str
) -> None:
    built = connector(server)

    async def send() -> None:
        async with built._http.open() as session:
            await session._client.request(method, server.url + path, json={})

    with pytest.raises(ConnectorError, match="only lists incidents"):
        asyncio.run(send())
    assert server.asked == []


@pytest.mark.parametrize(
    ("section", "base"),
    [("prometheus", "/api/prom"), ("loki", ""), ("tempo", "/tempo")],
)
def test_metrics_logs_and_traces_are_asked_with_the_instances_number_and_token(
    server: LocalServer, section: str, base: str
) -> None:
    """As grafana.com has the addresses: Basic authentication, below a base path."""
    values = {"url": server.url + base, "username": "123456", "token": "glc_x"}
    built = CONNECTORS[section].configured(Settings.model_validate({section: values}))
    assert built is not None
    asyncio.run(built.check())
    assert server.asked
    basic = base64.b64encode(b"123456:glc_x").decode()
    for asked in server.asked:
        assert asked.path.startswith(f"{base}/")
        assert httpx.Headers(asked.headers)["Authorization"] == f"Basic {basic}"
