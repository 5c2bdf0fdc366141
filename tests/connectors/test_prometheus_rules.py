"""A real Prometheus tells the expression of the rule that sent an alert."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from faultline.analysis.errors import ConnectorError
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Alert
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from tests.connectors.conftest import ALERT_AT, RunningPrometheus, running_prometheus
from tests.connectors.local_http import LocalServer, Reply

RULES = """
groups:
- name: shop
  rules:
  - alert: SlowCheckout
    expr: histogram_quantile(0.99, sum by (le) (rate(reply_seconds_bucket[5m]))) > 0.5
    for: 10m
    labels: {severity: warning, where: '{{ $labels.zone }}'}
  - alert: SlowCheckout
    expr: histogram_quantile(0.99, sum by (le) (rate(reply_seconds_bucket[5m]))) > 2
    labels: {severity: critical}
  - record: job:replies:rate5m
    expr: sum by (job) (rate(reply_seconds_count[5m]))
"""
SAMPLES = "# TYPE up gauge\nup 1 1772452800\n# EOF\n"


@pytest.fixture(scope="module")
def server_with_rules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPrometheus]:
    """Prometheus with two alert rules of one name and a recording rule."""
    with running_prometheus(tmp_path_factory.mktemp("rules"), SAMPLES, RULES) as running:
        yield running


def rule_of(url: str, **labels: str) -> AlertQuery | None:
    alert = Alert(source="slack", title="Slow", started_at=ALERT_AT, labels=labels)
    return asyncio.run(PrometheusConnector(url).rule_of(alert))


def test_of_rules_with_one_name_the_alerts_labels_choose(
    server_with_rules: RunningPrometheus,
) -> None:
    found = rule_of(
        server_with_rules.url, alertname="SlowCheckout", severity="warning", where="eu-1"
    )
    assert found is not None
    assert found.text.endswith("> 0.5")
    assert (found.language, found.holds_for_s) == ("promql", 600)
    other = rule_of(server_with_rules.url, alertname="SlowCheckout", severity="critical")
    assert other is not None
    assert other.text.endswith("> 2")


def test_other_names_have_no_rule(server_with_rules: RunningPrometheus) -> None:
    assert rule_of(server_with_rules.url, alertname="Slow") is None
    assert rule_of(server_with_rules.url, alertname="job:replies:rate5m") is None
    assert rule_of(server_with_rules.url) is None


def test_a_server_without_rules_is_an_error_of_the_connector(server: LocalServer) -> None:
    server.on("/api/v1/rules", Reply({"status": "error"}, status=404))
    with pytest.raises(ConnectorError):
        rule_of(server.url, alertname="SlowCheckout")
