"""Grafana tells the query of the rule that sent an alert."""

from __future__ import annotations

import asyncio

import pytest

from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Alert, Link
from faultline.connectors.vendors.grafana.connector import RULES, GrafanaConnector
from tests.connectors.conftest import ALERT_AT
from tests.connectors.local_http import LocalServer, Reply

LOGS = 'sum(rate({app="checkout"} |= "timed out" | json [5m]))'
MODEL = '[{"refId":"A","model":{"expr":"up{job=\\"a\\"}"}}]'
"""Rules as ruleToQuery of grafana/grafana writes them: joined expressions, or the model."""


def rule(uid: str, query: str, name: str = "Slow") -> dict[str, object]:
    return {"name": name, "uid": uid, "query": query, "duration": 300, "type": "alerting"}


@pytest.fixture
def grafana(server: LocalServer) -> LocalServer:
    rules = [
        rule("cpu", "rate(cpu_seconds_total[5m])", "Busy"),
        rule("two", "sum(rate(errors_total[5m])) | sum(rate(requests_total[5m]))"),
        rule("log", LOGS),
        rule("model", MODEL),
        rule("sql", "SELECT 1 FROM t"),
    ]
    server.on(RULES, Reply({"status": "success", "data": {"groups": [{"rules": rules}, {}]}}))
    return server


def rule_of(server: LocalServer, uid: str = "", **labels: str) -> AlertQuery | None:
    link = Link(title="Alert rule", url=f"https://grafana.example/alerting/grafana/{uid}/view")
    alert = Alert(
        source="alertmanager",
        title="Slow",
        started_at=ALERT_AT,
        labels=labels,
        links=(link,) if uid else (),
    )
    return asyncio.run(GrafanaConnector(server.url).rule_of(alert))


@pytest.mark.parametrize(
    ("uid", "language", "text"),
    [
        ("two", "promql", "sum(rate(errors_total[5m]))"),
        ("log", "logql", LOGS),
        ("model", "promql", 'up{job="a"}'),
    ],
)
def test_the_rule_is_found_by_the_uid_in_a_link(
    grafana: LocalServer, uid: str, language: str, text: str
) -> None:
    found = rule_of(grafana, uid)
    assert found is not None
    assert (found.language, found.text, found.holds_for_s) == (language, text, 300)


def test_without_a_link_the_name_decides(grafana: LocalServer) -> None:
    found = rule_of(grafana, alertname="Busy")
    assert found is not None
    assert found.text == "rate(cpu_seconds_total[5m])"
    assert rule_of(grafana, alertname="Nobody") is None


def test_a_rule_in_another_language_has_no_query(grafana: LocalServer) -> None:
    assert rule_of(grafana, "sql") is None
    assert rule_of(grafana, "gone", alertname="Busy") is None
    assert rule_of(grafana) is None
