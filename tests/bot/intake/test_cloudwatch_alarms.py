"""CloudWatch's alarms become alerts with labels by which their metric can be found again."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from faultline.analysis.vocabulary import Alert
from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.sources.cloudwatch_alarms import read_alarm
from faultline.bot.settings import Settings
from tests.bot.intake.sns_sender import REGION, alarm
from tests.bot.intake.test_pagerduty_webhook import JSON

NOW = datetime(2026, 11, 21, 10, 1, tzinfo=UTC)
SETTINGS = Settings.model_validate(
    {
        "services": {
            "checkout": {
                "aliases": ["basket"],
                "aws": {"target_groups": ["targetgroup/checkout/1"]},
            },
            "mailer": {"aws": {"lambdas": ["send-mail"]}},
        }
    }
)


def read(payload: Any) -> Alert | Ignored:
    return read_alarm(
        payload if isinstance(payload, str) else json.dumps(payload), REGION, SETTINGS, now=NOW
    )


def alert(payload: Any) -> Alert:
    found = read(payload)
    assert isinstance(found, Alert), found
    return found


def test_an_alarm_on_a_metric_is_an_alert_with_its_numbers() -> None:
    found = alert(alarm())
    assert (found.source, found.title, found.status) == ("cloudwatch", "checkout-latency", "firing")
    assert found.started_at == datetime(2026, 11, 21, 10, 0, 0, 123000, tzinfo=UTC)
    assert (found.service, found.signal) == ("checkout", "latency_p99")
    assert (found.threshold, found.observed) == (1.0, 2.5)
    assert found.labels["alarm_name"] == "checkout-latency"
    assert (found.labels["aws_region"], found.labels["aws_account"]) == (REGION, "123456789012")
    assert found.labels["dimension.TargetGroup"] == "targetgroup/checkout/1"
    assert found.links[0].url.endswith(f"region={REGION}#alarmsV2:alarm/checkout-latency")


def test_its_end_is_the_same_alert_resolved() -> None:
    fired, over = alert(alarm()), alert(alarm(state="OK"))
    assert (fired.fingerprint, over.status) == (over.fingerprint, "resolved")
    assert alert(alarm("other")).fingerprint != fired.fingerprint


def test_an_alarm_without_data_says_so() -> None:
    found = alert(alarm(state="INSUFFICIENT_DATA"))
    assert (found.status, found.title) == ("firing", "checkout-latency has no data")


def test_an_expression_is_known_by_the_metric_under_it() -> None:
    stat = {
        "Metric": {"MetricName": "Errors", "Namespace": "AWS/Lambda"},
        "Period": 60,
        "Stat": "Sum",
    }
    stat["Metric"] |= {"Dimensions": [{"name": "FunctionName", "value": "send-mail"}]}  # type: ignore[operator]
    parts = [
        {"Id": "e1", "Expression": "m1/60", "ReturnData": True},
        {"Id": "m1", "MetricStat": stat},
    ]
    found = alert(alarm("mail-errors", Trigger={"Metrics": parts, "Threshold": "3"}))
    assert (found.service, found.threshold, found.labels["metric"]) == ("mailer", 3.0, "Errors")


def test_a_composite_alarm_is_known_by_its_words() -> None:
    rule: dict[str, Any] = {
        "AlarmRule": "ALARM(a) OR ALARM(b)",
        "AlarmDescription": "basket is down",
        "Trigger": None,
    }
    found = alert(alarm("anything", **rule))
    assert (found.service, found.signal) == ("checkout", None)


@pytest.mark.parametrize(
    ("dimensions", "service"),
    [
        (
            [{"name": "ClusterName", "value": "c"}, {"name": "ServiceName", "value": "basket"}],
            "checkout",
        ),
        ([{"name": "FunctionName", "value": "resize-images"}], "resize-images"),
        ([{"Name": "Service", "Value": "cart"}], "cart"),
        ([{"name": "InstanceId", "value": "i-1"}], None),
        ("nothing", None),
    ],
)
def test_whose_alarm_it_is(dimensions: Any, service: str | None) -> None:
    trigger = {"MetricName": "X", "Namespace": "Y", "Dimensions": dimensions}
    assert (
        alert(alarm("Something is wrong", AlarmDescription=None, Trigger=trigger)).service
        == service
    )


@pytest.mark.parametrize(
    "name", ["single_metric_alarm", "metric_math_alarm", "an_anomaly_detection_alarm"]
)
def test_eventbridges_changes_of_state_are_alerts(shared: Path, name: str) -> None:
    file = next((shared / "webhooks/eventbridge").glob(f"state_change_for_*{name}.json"))
    found = alert(file.read_text())
    assert (found.status, found.labels["aws_region"]) == ("firing", "us-east-1")
    assert found.observed is not None
    assert found.labels["metric"]


def test_other_events_of_alarms_start_nothing(shared: Path) -> None:
    for file in (shared / "webhooks/eventbridge").glob("*.json"):
        if not file.name.startswith("state_change") or "suppressor" in file.name:
            assert isinstance(read(file.read_text()), Ignored), file.name


def test_an_event_without_data_starts_nothing() -> None:
    detail = {"alarmName": "a", "state": {"value": "INSUFFICIENT_DATA"}}
    assert isinstance(
        read(
            {
                "detail-type": "CloudWatch Alarm State Change",
                "source": "aws.cloudwatch",
                "detail": detail,
            }
        ),
        Ignored,
    )


def test_the_sampled_messages_are_alerts(shared: Path) -> None:
    folder = shared / "webhooks/cloudwatch"
    record = json.loads((folder / "sns_lambda_record.alarm_ok.json").read_text())["Records"][0][
        "Sns"
    ]["Message"]
    assert alert(record).status == "resolved"
    assert alert((folder / "sns_message.alarm.json").read_text()).observed == 1.0


@examples(max_examples=200, deadline=None)
@given(
    JSON,
    st.sampled_from(
        ["AlarmName", "Trigger", "StateChangeTime", "AlarmArn", "NewStateReason", "detail", ""]
    ),
)
def test_no_message_makes_it_fail(value: Any, field: str) -> None:
    event = (
        {"detail-type": "CloudWatch Alarm State Change", "source": "aws.cloudwatch"}
        if field == "detail"
        else {}
    )
    payload = alarm() | event | {field: value} if field else value
    assert isinstance(read(json.dumps(payload)), (Alert, Ignored))
