"""Every alert source passes on what its monitor computes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from urllib.parse import urlencode

from faultline.analysis.kinds.signals import AlertQuery
from faultline.bot.intake.sources.sentry import read_sentry
from faultline.bot.policy.values import Arrival
from faultline.bot.settings import Settings
from tests.bot.intake.sns_sender import alarm
from tests.bot.intake.test_cloudwatch_alarms import alert as cloudwatch_alert
from tests.bot.intake.test_datadog_webhook import QUERY, event
from tests.bot.intake.test_datadog_webhook import read as read_datadog
from tests.bot.intake.test_slack_alerts import boxed
from tests.bot.intake.test_slack_alerts import read as read_slack

NOW = datetime(2026, 11, 20, 10, 1, tzinfo=UTC)


def test_datadog_sends_the_monitors_query() -> None:
    assert read_datadog(event()).alert.query == AlertQuery(language="datadog", text=QUERY)
    assert read_datadog(event(alert={"query": ""})).alert.query is None


def test_cloudwatch_sends_metric_statistic_comparison_and_periods() -> None:
    trigger = {
        "MetricName": "CPUUtilization",
        "Namespace": "AWS/ECS",
        "Statistic": "AVERAGE",
        "Dimensions": [{"name": "ServiceName", "value": "checkout"}],
        "Threshold": 80.0,
        "ComparisonOperator": "GreaterThanThreshold",
        "Period": 60,
        "EvaluationPeriods": 5,
    }
    query = cloudwatch_alert(alarm(Trigger=trigger)).query
    assert query is not None
    assert (query.text, query.statistic) == ("CPUUtilization", "AVERAGE")
    assert (query.comparison, query.threshold) == (">", 80)
    assert (query.window_s, query.holds_for_s) == (60, 300)
    assert query.dimensions == {"ServiceName": "checkout"}
    assert cloudwatch_alert(alarm(Trigger=None)).query is None


def test_sentry_sends_the_aggregate_of_a_metric_alert() -> None:
    rule = {"id": "7", "name": "Slow", "aggregate": "p95(transaction.duration)"}
    payload = {"action": "critical", "data": {"metric_alert": {"id": "1", "alert_rule": rule}}}
    found = read_sentry(json.dumps(payload).encode(), Settings(), now=NOW)
    assert isinstance(found, Arrival)
    assert found.alert.query == AlertQuery(language="metric", text="p95(transaction.duration)")


def test_a_message_in_slack_may_link_to_its_rule() -> None:
    rule = "http://prometheus:9090/graph?" + urlencode({"g0.expr": "up == 0"})
    text = f"<{rule}|Source> <http://alertmanager:9093/#/alerts?receiver=bot|alerts>"
    found = read_slack(boxed("[FIRING:1] TargetDown checkout", color="danger", text=text))
    assert found is not None
    assert found.query == AlertQuery(language="promql", text="up == 0")
