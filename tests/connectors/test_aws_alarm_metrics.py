"""What a CloudWatch alarm watches: its queries, its condition, and what of it is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from faultline.connectors.vendors.aws.alarm_metrics import (
    AlarmMetric,
    alarm_dimensions,
    condition,
    metric_of,
)
from faultline.connectors.vendors.aws.session import AwsAccount, AwsPlace

PLACE = AwsPlace(AwsAccount("prod"), "eu-west-1")
PLAIN: dict[str, Any] = {
    "AlarmName": "slow",
    "Namespace": "AWS/ApplicationELB",
    "MetricName": "TargetResponseTime",
    "Dimensions": [{"Name": "LoadBalancer", "Value": "app/web/1"}, {"Value": "nameless"}],
    "Statistic": "Average",
    "Period": 300,
    "ComparisonOperator": "GreaterThanThreshold",
    "Threshold": 2,
    "EvaluationPeriods": 3,
}


def of(**more: Any) -> AlarmMetric:
    metric = metric_of({**PLAIN, **more}, PLACE, "web")
    assert metric is not None
    return metric


@pytest.mark.parametrize(
    ("period", "seconds"),
    [(61, 61), (86_400, 86_400), (86_401, 60), (0, 60), (-1, 60), (None, 60), ("300", 60)],
)
def test_a_period_of_up_to_a_day_is_taken(period: object, seconds: int) -> None:
    metric = of(Period=period)
    assert metric.period_s == seconds
    assert metric.queries[0]["MetricStat"]["Period"] == seconds


def test_a_plain_alarm_is_one_query() -> None:
    metric = of(Unit="Seconds")
    stat = {
        "Metric": {key: PLAIN[key] for key in ("Namespace", "MetricName", "Dimensions")},
        "Stat": "Average",
        "Period": 300,
        "Unit": "Seconds",
    }
    assert metric.queries == [{"Id": "m1", "MetricStat": stat, "ReturnData": True}]
    assert (metric.place, metric.service, metric.alarm) == (PLACE, "web", "slow")
    assert (metric.comparison, metric.threshold) == (">", 2.0)
    text = "AWS/ApplicationELB LoadBalancer=app/web/1: TargetResponseTime Average"
    assert metric.text == f"alarm slow: {text}"
    assert metric.graph == [
        [
            "AWS/ApplicationELB", "TargetResponseTime", "LoadBalancer", "app/web/1",
            {"stat": "Average", "id": "m1"},
        ]
    ]  # fmt: skip
    (shown,) = metric.shown
    assert shown.id == "m1"
    assert json.loads(shown.labels or "") == {"LoadBalancer": "app/web/1", "alarm": "slow"}


@pytest.mark.parametrize(
    ("operator", "threshold", "comparison"),
    [
        ("GreaterThanOrEqualToThreshold", 2, ">="),
        ("LessThanThreshold", 2, "<"),
        ("LessThanOrEqualToThreshold", 2.5, "<="),
        ("GreaterThanUpperThreshold", 2, None),
        ("LessThanThreshold", None, None),
    ],
)
def test_only_a_comparison_with_one_number_has_a_threshold(
    operator: str, threshold: float | None, comparison: str | None
) -> None:
    metric = of(ComparisonOperator=operator, Threshold=threshold)
    assert metric.comparison == comparison
    assert metric.threshold == (None if comparison is None else float(threshold or 0))


def part(name: str, **more: Any) -> dict[str, Any]:
    stat = {"Metric": {"Namespace": "N", "MetricName": name}, "Stat": "Sum", "Period": 120}
    return {"Id": name, "MetricStat": stat, **more}


def test_of_metric_math_only_what_is_returned_is_shown() -> None:
    parts = [
        part("errors", ReturnData=False),
        part("requests", ReturnData=False, AccountId="1"),
        {"Id": "share", "Expression": "errors / requests", "Label": "Error share", "Period": 60},
        {"Id": "band", "Expression": "ANOMALY_DETECTION_BAND(errors)"},
        {"Id": "nothing"},
    ]
    metric = of(Metrics=parts)
    assert [query["Id"] for query in metric.queries] == ["errors", "requests", "share"]
    assert [query["ReturnData"] for query in metric.queries] == [False, False, True]
    assert metric.queries[1]["AccountId"] == "1"
    assert [(shown.id, shown.labels) for shown in metric.shown] == [("share", None)]
    assert metric.period_s == 120
    assert metric.text == "alarm slow: N : errors Sum; N : requests Sum; share=errors / requests"
    assert metric.graph[2] == [{"expression": "errors / requests", "id": "share"}]


@pytest.mark.parametrize(
    "more",
    [
        {"MetricName": ""},
        {"Namespace": None},
        {"Metrics": [part("errors", ReturnData=False)]},
        {"Metrics": [{"Id": "x", "MetricStat": {"Metric": "text"}}]},
    ],
)
def test_what_shows_no_metric_has_none(more: dict[str, Any]) -> None:
    assert metric_of({**PLAIN, **more}, PLACE, None) is None


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "TargetResponseTime Average > 2 for 3 of 3 periods"),
        ({"DatapointsToAlarm": 2}, "TargetResponseTime Average > 2 for 2 of 3 periods"),
        ({"ExtendedStatistic": "p99"}, "TargetResponseTime p99 > 2 for 3 of 3 periods"),
        (
            {"MetricName": None, "Statistic": None},
            "expression > 2 for 3 of 3 periods",
        ),
        ({"ComparisonOperator": "LessThanThreshold"}, "TargetResponseTime Average < 2"),
        ({"ComparisonOperator": "Odd"}, "TargetResponseTime Average Odd 2"),
        ({"ComparisonOperator": None, "AlarmRule": "ALARM(a)"}, "ALARM(a)"),
    ],
)
def test_a_condition_in_words(more: dict[str, Any], words: str) -> None:
    said = condition({**PLAIN, **more})
    assert said.startswith(words)
    assert "nameless" not in said


def test_dimensions_are_those_of_every_part() -> None:
    named = part("errors")
    named["MetricStat"]["Metric"]["Dimensions"] = [{"Name": "Queue", "Value": "q"}]
    alarm = {**PLAIN, "Metrics": [named, part("other"), {"Expression": "x"}]}
    assert alarm_dimensions(alarm) == [{"LoadBalancer": "app/web/1"}, {"Queue": "q"}]
