"""What an alarm looks at: its metric or expression as DescribeAlarms tells it, ready to be
asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from faultline.analysis.kinds.signals import Comparison
from faultline.connectors.vendors.aws.calls import objects
from faultline.connectors.vendors.aws.evidence import words
from faultline.connectors.vendors.aws.metric_templates import signal_of
from faultline.connectors.vendors.aws.session import AwsPlace

BAND = "ANOMALY_DETECTION_BAND"
"""The expression that draws a band around a metric; it is no measurement."""
LONGEST = 300
_SIGNS = {
    "GreaterThan": ">",
    "GreaterThanOrEqualTo": ">=",
    "LessThan": "<",
    "LessThanOrEqualTo": "<=",
}
_COMPARISONS: Mapping[str, Comparison] = {
    "GreaterThanThreshold": ">",
    "GreaterThanOrEqualToThreshold": ">=",
    "LessThanThreshold": "<",
    "LessThanOrEqualToThreshold": "<=",
}
_QUERY_KEYS = ("Id", "MetricStat", "Expression", "Label", "AccountId")


@dataclass(frozen=True)
class ShownMetric:
    """One series of the answer that becomes rows. `labels` is JSON."""

    id: str
    signal: str
    unit: str | None
    scale: float
    labels: str | None


@dataclass(frozen=True)
class AlarmMetric:
    """The queries of one alarm. `text` says them to a human, `graph` to the console."""

    place: AwsPlace
    service: str | None
    alarm: str
    period_s: int
    queries: Sequence[Mapping[str, Any]]
    shown: tuple[ShownMetric, ...]
    text: str
    graph: Sequence[Sequence[Any]]
    comparison: Comparison | None = None
    threshold: float | None = None
    """Of an alarm that compares with one number; None for one on an anomaly's band."""


def metric_of(alarm: Mapping[str, Any], place: AwsPlace, service: str | None) -> AlarmMetric | None:
    """The metric of an alarm; None for one without a metric (a composite alarm, a PromQL or log
    alarm)."""
    metric = _metric_of(alarm, place, service)
    comparison = _COMPARISONS.get(words(alarm.get("ComparisonOperator"), 80))
    threshold = alarm.get("Threshold")
    if metric is None or comparison is None or not isinstance(threshold, (int, float)):
        return metric
    return replace(metric, comparison=comparison, threshold=float(threshold))


def _metric_of(
    alarm: Mapping[str, Any], place: AwsPlace, service: str | None
) -> AlarmMetric | None:
    name = words(alarm.get("AlarmName"), 255)
    parts = objects(alarm.get("Metrics"))
    # An alarm on metric math lists its parts; a plain one names its metric itself.
    if parts:
        return _from_parts(name, parts, place, service)
    if not (alarm.get("MetricName") and alarm.get("Namespace")):
        return None
    stat = alarm.get("ExtendedStatistic") or alarm.get("Statistic") or "Average"
    metric = {k: alarm[k] for k in ("Namespace", "MetricName", "Dimensions") if alarm.get(k)}
    units = {"Metric": metric, "Stat": stat, "Period": _seconds(alarm.get("Period"))}
    if alarm.get("Unit"):
        units["Unit"] = alarm["Unit"]
    part = {"Id": "m1", "MetricStat": units, "ReturnData": True}
    return _from_parts(name, [part], place, service)


def alarm_dimensions(alarm: Mapping[str, Any]) -> list[dict[str, str]]:
    """The dimensions of every metric an alarm looks at."""
    metrics = [alarm]
    for part in objects(alarm.get("Metrics")):
        if _has_metric(part):
            metrics.append(part["MetricStat"]["Metric"])
    dimensions = [_dimensions(metric.get("Dimensions")) for metric in metrics]
    return [named for named in dimensions if named]


def condition(alarm: Mapping[str, Any]) -> str:
    """What the alarm waits for, in words."""
    operator = words(alarm.get("ComparisonOperator"), 80)
    # A composite alarm compares nothing itself.
    if not operator:
        return words(alarm.get("AlarmRule"), LONGEST)
    what = words(alarm.get("MetricName"), 80) or "expression"
    stat = words(alarm.get("ExtendedStatistic") or alarm.get("Statistic"), 20)
    if stat:
        what += f" {stat}"
    sign = _SIGNS.get(operator.removesuffix("Threshold"), operator)
    periods = alarm.get("EvaluationPeriods")
    of = f"{alarm.get('DatapointsToAlarm') or periods} of {periods} periods"
    return f"{what} {sign} {words(alarm.get('Threshold'), 40)} for {of}"


def _from_parts(
    name: str, parts: Sequence[Mapping[str, Any]], place: AwsPlace, service: str | None
) -> AlarmMetric | None:
    queries: list[dict[str, Any]] = []
    shown: list[ShownMetric] = []
    texts: list[str] = []
    graph: list[list[Any]] = []
    periods = [60]
    for part in parts:
        expression = words(part.get("Expression"), 2048)
        if BAND in expression or not (expression or _has_metric(part)):
            continue
        queries.append(_query(part))
        periods.append(_seconds(part.get("Period") or (part.get("MetricStat") or {}).get("Period")))
        if expression:
            texts.append(f"{part.get('Id')}={expression}")
            graph.append([{"expression": expression, "id": words(part.get("Id"))}])
        else:
            texts.append(_text(part["MetricStat"]))
            graph.append(_graphed(part))
        # What an expression is computed from is asked for it, but is not what alarms.
        if _is_returned(part):
            shown.append(_shown(part, name))
    if not shown:
        return None
    text = f"alarm {name}: " + words("; ".join(texts), LONGEST)
    return AlarmMetric(place, service, name, max(periods), queries, tuple(shown), text, graph)


def _query(part: Mapping[str, Any]) -> dict[str, Any]:
    """As GetMetricData takes it."""
    query: dict[str, Any] = {key: part[key] for key in _QUERY_KEYS if part.get(key)}
    query["ReturnData"] = _is_returned(part)
    return query


def _is_returned(part: Mapping[str, Any]) -> bool:
    return part.get("ReturnData") is not False


def _shown(part: Mapping[str, Any], alarm: str) -> ShownMetric:
    if not _has_metric(part):
        signal, unit, scale = signal_of("", words(part.get("Label"), 80) or alarm, "Average")
        return ShownMetric(words(part.get("Id")), signal, unit, scale, None)
    stat, metric = part["MetricStat"], part["MetricStat"]["Metric"]
    signal, unit, scale = signal_of(
        words(metric.get("Namespace")), words(metric.get("MetricName")), words(stat.get("Stat"), 20)
    )
    named = _dimensions(metric.get("Dimensions"))
    labels = msgspec.json.encode({"alarm": alarm, **named}, order="sorted").decode()
    return ShownMetric(words(part.get("Id")), signal, unit, scale, labels)


def _has_metric(part: Mapping[str, Any]) -> bool:
    stat = part.get("MetricStat")
    return isinstance(stat, Mapping) and isinstance(stat.get("Metric"), Mapping)


def _dimensions(value: Any) -> dict[str, str]:
    return {
        words(dimension.get("Name"), 255): words(dimension.get("Value"), 1024)
        for dimension in objects(value)
        if dimension.get("Name")
    }


def _text(stat: Mapping[str, Any]) -> str:
    metric = stat["Metric"]
    named = " ".join(f"{k}={v}" for k, v in _dimensions(metric.get("Dimensions")).items())
    return (
        f"{words(metric.get('Namespace'))} {named}: {words(metric.get('MetricName'))} "
        f"{words(stat.get('Stat'), 20)}"
    )


def _graphed(part: Mapping[str, Any]) -> list[Any]:
    stat, metric = part["MetricStat"], part["MetricStat"]["Metric"]
    named = [text for pair in _dimensions(metric.get("Dimensions")).items() for text in pair]
    options = {"stat": words(stat.get("Stat"), 20), "id": words(part.get("Id"))}
    return [words(metric.get("Namespace")), words(metric.get("MetricName")), *named, options]


def _seconds(value: Any) -> int:
    return value if isinstance(value, int) and 0 < value <= 86_400 else 60
