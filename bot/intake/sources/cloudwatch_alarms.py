"""CloudWatch alarms as alerts: what an alarm sends to its topic, and EventBridge's event of the
same change.

Shapes: CloudWatch user guide, "Alarm events and EventBridge"; the alarm's own message is not
documented, and is read as alarms send it. The two write dimensions differently, as a list and as an
object, both in either case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from faultline.analysis.alert_signal.subjects import Naming
from faultline.analysis.kinds.signals import AlertQuery, Comparison
from faultline.analysis.vocabulary import Alert, Link
from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.payload_fields import (
    Line,
    Payload,
    Rows,
    Table,
    Text,
    When,
    filled,
    json_object,
    number_in,
    single_line,
)
from faultline.bot.intake.service_names import identified, mentioned
from faultline.bot.settings import Settings
from faultline.connectors.vendors.aws.console import alarm_link
from faultline.connectors.vendors.aws.metric_templates import signal_of
from faultline.connectors.vendors.aws.resource_kinds import (
    BY_KIND,
    IDENTIFIED_KINDS,
    base_name,
    catalogued_names,
    is_generated,
    resource_names,
)

SOURCE = "cloudwatch"
SNS = "sns"
EVENT = "CloudWatch Alarm State Change"
FIRING, RESOLVED, NO_DATA = "ALARM", "OK", "INSUFFICIENT_DATA"
MOST_DIMENSIONS = 30
DEEPEST_EXPRESSION, LONGEST_EXPRESSION = 5, 1_000
SERVICE_DIMENSIONS = ("ServiceName", "Service", "service.name", "service", "app")
"""Dimensions that name a service: of ECS, of Application Signals and OpenTelemetry, and what teams
call theirs."""
LOAD_BALANCER_DIMENSIONS = ("LoadBalancer", "LoadBalancerName")
COMPARISONS: Mapping[str, Comparison] = {
    "GreaterThanThreshold": ">",
    "GreaterThanOrEqualToThreshold": ">=",
    "LessThanThreshold": "<",
    "LessThanOrEqualToThreshold": "<=",
}
_ARN = re.compile(r"arn:aws[a-z-]*:cloudwatch:([a-z0-9-]{1,30}):(\d{12}):alarm:.{1,255}")
_ID = re.compile(r"\b[a-z][A-Za-z0-9_]*\b")
"""An id in an expression begins with a small letter, a function with a capital one."""
_OBSERVED = re.compile(r"datapoints? \[(-?[\d.]{1,30}(?:E-?\d{1,3})?) ")
"""The last value, as it stands in an alarm's reason."""


def _dimensions(value: Any) -> dict[str, str]:
    """Name to value from `[{"name": ..., "value": ...}]` or `{name: value}`, keys in either
    case."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        for row in value[:MOST_DIMENSIONS]:
            if isinstance(row, dict):
                lower = {str(key).lower(): text for key, text in row.items()}
                pairs.append((lower.get("name"), lower.get("value")))
    dimensions: dict[str, str] = {}
    for raw_name, raw_text in pairs[:MOST_DIMENSIONS]:
        name, text = single_line(raw_name, 255), single_line(raw_text, 1_000)
        if name and text:
            dimensions[name] = text
    return dimensions


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else ""


Pairs = Annotated[dict[str, str], BeforeValidator(_dimensions)]


class CloudWatchMetric(Payload):
    """A metric, with the names of both shapes."""

    MetricName: Line = ""
    name: Line = ""
    Namespace: Line = ""
    namespace: Line = ""
    Dimensions: Pairs = Field(default_factory=dict)
    dimensions: Pairs = Field(default_factory=dict)


class CloudWatchStatistic(Payload):
    """A metric and a statistic."""

    Metric: Table[CloudWatchMetric] = Field(default_factory=CloudWatchMetric)
    metric: Table[CloudWatchMetric] = Field(default_factory=CloudWatchMetric)
    Stat: Line = ""
    stat: Line = ""


class CloudWatchQuery(Payload):
    """One of the metrics of an expression, or the expression."""

    Id: Line = ""
    id: Line = ""
    Expression: Line = ""
    expression: Line = ""
    ReturnData: bool = True
    returnData: bool = True
    MetricStat: Table[CloudWatchStatistic] = Field(default_factory=CloudWatchStatistic)
    metricStat: Table[CloudWatchStatistic] = Field(default_factory=CloudWatchStatistic)


class CloudWatchTrigger(CloudWatchMetric):
    """What an alarm waits for."""

    Statistic: Line = ""
    ExtendedStatistic: Line = ""
    Threshold: Line = ""
    ComparisonOperator: Line = ""
    Period: Line = ""
    EvaluationPeriods: Line = ""
    Metrics: Rows[CloudWatchQuery] = ()


class CloudWatchChild(Payload):
    """An alarm because of which a composite alarm changed its state."""

    Arn: Line = ""


class CloudWatchAlarmMessage(Payload):
    """What an alarm sends to a topic."""

    AlarmName: Line = ""
    AlarmDescription: Text = ""
    AlarmArn: Line = ""
    AlarmRule: Text = ""
    AWSAccountId: Line = ""
    NewStateValue: Line = ""
    OldStateValue: Line = ""
    NewStateReason: Text = ""
    StateChangeTime: When = None
    TriggeringChildren: Rows[CloudWatchChild] = ()
    Trigger: Table[CloudWatchTrigger] = Field(default_factory=CloudWatchTrigger)


class CloudWatchState(Payload):
    """A state in an event."""

    value: Line = ""
    reason: Text = ""
    reasonData: Text = ""
    timestamp: When = None
    actionsSuppressedBy: Line = ""


class CloudWatchAlarmSettings(Payload):
    """An alarm's configuration in an event."""

    description: Text = ""
    alarmRule: Line = ""
    metrics: Rows[CloudWatchQuery] = ()


class CloudWatchAlarmDetail(Payload):
    """The event's own part."""

    alarmName: Line = ""
    state: Table[CloudWatchState] = Field(default_factory=CloudWatchState)
    previousState: Table[CloudWatchState] = Field(default_factory=CloudWatchState)
    configuration: Table[CloudWatchAlarmSettings] = Field(default_factory=CloudWatchAlarmSettings)


class CloudWatchAlarmEvent(Payload):
    """EventBridge's event."""

    account: Line = ""
    region: Line = ""
    resources: Annotated[Line, BeforeValidator(_first)] = ""
    detail: Table[CloudWatchAlarmDetail] = Field(default_factory=CloudWatchAlarmDetail)


@dataclass(frozen=True)
class AlarmChange:
    """A change of an alarm's state, whichever shape it came in."""

    name: str
    arn: str
    account: str
    region: str
    state: str
    previous_state: str
    description: str
    reason: str
    at: datetime
    namespace: str
    metric: str
    statistic: str
    dimensions: Mapping[str, str]
    threshold: float | None
    observed: float | None
    comparison: str = ""
    period_s: float | None = None
    periods: float | None = None
    expression: str = ""
    """What it computes from several metrics, by their names."""
    metrics: tuple[str, ...] = ()
    children: str = ""
    """Of a composite alarm: the alarms that triggered it, and its rule."""

    @property
    def query(self) -> AlertQuery | None:
        """What the alarm waits for, where it waits for a metric."""
        if not self.metric:
            return None
        long_s = None
        # The alarm judges this many periods together.
        if self.period_s is not None and self.periods is not None:
            long_s = self.period_s * self.periods
        return AlertQuery(
            language="metric",
            text=self.expression or self.metric,
            metrics=self.metrics if self.expression else (),
            unit="%" if self.metric.endswith("Utilization") and not self.expression else None,
            namespace=self.namespace or None,
            statistic=self.statistic or None,
            comparison=COMPARISONS.get(self.comparison),
            threshold=self.threshold,
            window_s=self.period_s,
            holds_for_s=long_s,
            dimensions=self.dimensions,
        )


def read_alarm(text: str, region: str, settings: Settings, *, now: datetime) -> Alert | Ignored:
    """The alert in a message's text; `region` is the topic's. Never fails: what is no alarm is
    ignored."""
    payload = json_object(text.encode("utf-8", "replace"))
    if payload is None:
        return Ignored("the message is not a JSON object, as alarms are")
    if payload.get("detail-type") == EVENT and payload.get("source") == "aws.cloudwatch":
        change = _from_event(CloudWatchAlarmEvent.model_validate(payload), region, now)
    else:
        change = _from_message(CloudWatchAlarmMessage.model_validate(payload), region, now)
    return change if isinstance(change, Ignored) else _alert(change, settings, now)


def _from_message(
    message: CloudWatchAlarmMessage, region: str, now: datetime
) -> AlarmChange | Ignored:
    if not message.AlarmName or message.NewStateValue not in (FIRING, RESOLVED, NO_DATA):
        return Ignored("the message is not a change of an alarm's state")
    trigger = message.Trigger
    measured = _measured(trigger)
    metric: CloudWatchMetric = trigger
    # An alarm on an expression has no metric itself, only those its expression uses.
    if measured is not None and not trigger.MetricName:
        metric = measured.Metric
    statistic = trigger.ExtendedStatistic or trigger.Statistic
    if not statistic and measured is not None:
        statistic = measured.Stat
    match = _OBSERVED.search(message.NewStateReason[:1_000])
    return AlarmChange(
        name=message.AlarmName,
        arn=message.AlarmArn,
        account=message.AWSAccountId,
        region=region,
        state=message.NewStateValue,
        previous_state=message.OldStateValue,
        description=message.AlarmDescription,
        reason=message.NewStateReason,
        at=message.StateChangeTime or now,
        namespace=metric.Namespace,
        metric=metric.MetricName,
        statistic=statistic,
        dimensions=metric.Dimensions,
        threshold=number_in(trigger.Threshold),
        observed=number_in(match[1]) if match else None,
        comparison=trigger.ComparisonOperator,
        period_s=number_in(trigger.Period),
        periods=number_in(trigger.EvaluationPeriods),
        expression=_expression(trigger.Metrics),
        metrics=_metric_names(trigger.Metrics),
        children=" ".join(
            [*(child.Arn for child in message.TriggeringChildren), message.AlarmRule]
        ),
    )


def _expression(queries: Sequence[CloudWatchQuery]) -> str:
    """The expression that the alarm compares, with metrics instead of ids; "" where it compares a
    metric, by a band of usual values or not."""
    named = {query.Id or query.id: query for query in queries}
    compared = ""
    for query in queries:
        text = query.Expression or query.expression
        is_band = text.startswith("ANOMALY_DETECTION_BAND")
        if text and not is_band and query.ReturnData and query.returnData:
            compared = text
    # Expressions may use others.
    for _ in range(DEEPEST_EXPRESSION):
        written = _ID.sub(partial(_written_out, named), compared)
        if written == compared or len(written) > LONGEST_EXPRESSION:
            break
        compared = written
    return compared


def _written_out(queries: Mapping[str, CloudWatchQuery], match: re.Match[str]) -> str:
    query = queries.get(match[0])
    if query is None:
        return match[0]
    expression = query.Expression or query.expression
    return f"({expression})" if expression else _metric_name(query) or match[0]


def _metric_name(query: CloudWatchQuery) -> str:
    return query.MetricStat.Metric.MetricName or query.metricStat.metric.name


def _metric_names(queries: Sequence[CloudWatchQuery]) -> tuple[str, ...]:
    names = (_metric_name(query) for query in queries)
    return tuple(dict.fromkeys(name for name in names if name))


def _measured(trigger: CloudWatchTrigger) -> CloudWatchStatistic | None:
    """The first metric of an expression."""
    for query in trigger.Metrics:
        if query.MetricStat.Metric.MetricName:
            return query.MetricStat
    return None


def _from_event(event: CloudWatchAlarmEvent, region: str, now: datetime) -> AlarmChange | Ignored:
    detail, state = event.detail, event.detail.state
    if not detail.alarmName or state.value not in (FIRING, RESOLVED):
        return Ignored(f"nothing to do for an alarm whose state is {state.value or 'unknown'}")
    # CloudWatch runs none of the alarm's actions then, so nobody else is notified either.
    if state.actionsSuppressedBy:
        return Ignored("the alarm's actions are suppressed")
    measured = CloudWatchStatistic()
    for query in detail.configuration.metrics:
        if query.metricStat.metric.name:
            measured = query.metricStat
            break
    data = json_object(state.reasonData.encode("utf-8", "replace")) or {}
    recent = data.get("recentDatapoints")
    last = single_line(recent[-1]) if isinstance(recent, list) and recent else ""
    return AlarmChange(
        name=detail.alarmName,
        arn=event.resources,
        account=event.account,
        region=event.region or region,
        state=state.value,
        previous_state=detail.previousState.value,
        description=detail.configuration.description,
        reason=state.reason,
        at=state.timestamp or now,
        namespace=measured.metric.namespace,
        metric=measured.metric.name,
        statistic=measured.stat,
        dimensions=measured.metric.dimensions,
        threshold=number_in(single_line(data.get("threshold"))),
        observed=number_in(last),
        expression=_expression(detail.configuration.metrics),
        metrics=_metric_names(detail.configuration.metrics),
        children=detail.configuration.alarmRule,
    )


def _alert(change: AlarmChange, settings: Settings, now: datetime) -> Alert:
    region, account = change.region, change.account
    # The name of an alarm is unique in its account and region alone.
    identity = f"{account}/{region}/{change.name}"
    match = _ARN.fullmatch(change.arn)
    # The ARN is the alarm's own. The region may be only that of the topic.
    if match:
        region, account, identity = match[1], match[2], change.arn
    labels = {
        "alarm_name": change.name,
        "alarm_arn": change.arn if match else "",
        "aws_account": account,
        "aws_region": region,
        "namespace": change.namespace,
        "metric": change.metric,
        "statistic": change.statistic,
        "state": change.state,
        "previous_state": change.previous_state,
        "fingerprint": identity,
    }
    for key, value in change.dimensions.items():
        labels[f"dimension.{key}"] = value
    signal = None
    # The threshold of an expression is no threshold of a metric in it.
    if change.metric and not change.expression:
        signal, *_ = signal_of(change.namespace, change.metric, change.statistic)
    no_data = change.state == NO_DATA
    computed = f"It compares {change.expression}." if change.expression else ""
    summary = [text for text in (change.description, computed, change.reason) if text]
    alert = Alert(
        source=SOURCE,
        id=identity,
        title=f"{change.name} has no data" if no_data else change.name,
        started_at=change.at,
        status="resolved" if change.state == RESOLVED else "firing",
        signal=None if no_data else signal,
        summary="\n".join(summary) or None,
        threshold=None if no_data else change.threshold,
        observed=change.observed,
        query=change.query,
        labels=filled(labels),
        links=(Link(title="CloudWatch alarm", url=alarm_link(region, change.name)),),
        no_data=no_data,
    )
    named = _namings(change, settings)
    return identified(alert, settings, now=now, named=named, words=change.children)


def _namings(change: AlarmChange, settings: Settings) -> list[Naming]:
    """Whose resource it is by the catalogue; else the service that a dimension or the alarm's words
    name, else the resource itself."""
    dimensions = change.dimensions
    named: list[Naming] = []
    resource = resource_names(dimensions)
    if resource is not None:
        kind, name = resource
        for service, entry in settings.services.items():
            if entry.aws is not None and name in catalogued_names(entry.aws, BY_KIND[kind]):
                named.append(Naming(service, f"its resource {base_name(name)}"))
    for key in SERVICE_DIMENSIONS:
        if dimensions.get(key):
            named.append(Naming(dimensions[key], f"its dimension {key}"))
    in_words = mentioned(settings, f"{change.name} {change.description}")
    if in_words:
        named.append(Naming(in_words, "the alarm's name and description"))
    resources = [resource[1]] if resource is not None else []
    if resource is not None and resource[0] in IDENTIFIED_KINDS:
        resources = []
    for key in LOAD_BALANCER_DIMENSIONS:
        resources.append(dimensions.get(key, ""))
    for name in map(base_name, resources):
        if name and not is_generated(name):
            named.append(Naming(name, f"its resource {name}", is_hint=True))
    return named
