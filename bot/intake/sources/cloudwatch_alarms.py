"""CloudWatch alarms as alerts: what an alarm sends to its topic, and EventBridge's event of the
same change.

Shapes: CloudWatch user guide, "Alarm events and EventBridge"; the alarm's own message is not
documented, and is read as alarms send it. The two write dimensions differently, as a list and as an
object, both in either case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

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
from faultline.bot.intake.service_names import catalogued, mentioned
from faultline.bot.settings import Settings
from faultline.connectors.vendors.aws.console import alarm_link
from faultline.connectors.vendors.aws.metric_templates import signal_of
from faultline.connectors.vendors.aws.resource_kinds import (
    BY_KIND,
    IDENTIFIED_KINDS,
    base_name,
    catalogued_names,
    resource_names,
)

SOURCE = "cloudwatch"
SNS = "sns"
EVENT = "CloudWatch Alarm State Change"
FIRING, RESOLVED, NO_DATA = "ALARM", "OK", "INSUFFICIENT_DATA"
MOST_DIMENSIONS = 30
SERVICE_DIMENSIONS = ("ServiceName", "Service", "service.name", "service", "app")
"""Dimensions that name a service: of ECS, of Application Signals and OpenTelemetry, and what teams
call theirs."""
COMPARISONS: Mapping[str, Comparison] = {
    "GreaterThanThreshold": ">",
    "GreaterThanOrEqualToThreshold": ">=",
    "LessThanThreshold": "<",
    "LessThanOrEqualToThreshold": "<=",
}
_ARN = re.compile(r"arn:aws[a-z-]*:cloudwatch:([a-z0-9-]{1,30}):(\d{12}):alarm:.{1,255}")
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
    """One of the metrics of an expression."""

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


class CloudWatchAlarmMessage(Payload):
    """What an alarm sends to a topic."""

    AlarmName: Line = ""
    AlarmDescription: Text = ""
    AlarmArn: Line = ""
    AlarmRule: Line = ""
    AWSAccountId: Line = ""
    NewStateValue: Line = ""
    OldStateValue: Line = ""
    NewStateReason: Text = ""
    StateChangeTime: When = None
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
            text=self.metric,
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
    return change if isinstance(change, Ignored) else _alert(change, settings)


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
    )


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
    )


def _alert(change: AlarmChange, settings: Settings) -> Alert:
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
    if change.metric:
        signal, *_ = signal_of(change.namespace, change.metric, change.statistic)
    about = f"{change.name} {change.description}"
    summary = [text for text in (change.description, change.reason) if text]
    return Alert(
        source=SOURCE,
        id=identity,
        title=f"{change.name} has no data" if change.state == NO_DATA else change.name,
        started_at=change.at,
        status="resolved" if change.state == RESOLVED else "firing",
        service=service_of(change.dimensions, about, settings),
        signal=signal,
        summary="\n".join(summary) or None,
        threshold=change.threshold,
        observed=change.observed,
        query=change.query,
        labels=filled(labels),
        links=(Link(title="CloudWatch alarm", url=alarm_link(region, change.name)),),
    )


def service_of(dimensions: Mapping[str, str], text: str, settings: Settings) -> str | None:
    """Whose resource it is by the catalogue; else the service that the alarm's words name, else the
    resource itself."""
    resource = resource_names(dimensions)
    if resource is not None:
        kind, name = resource
        for service, entry in settings.services.items():
            if entry.aws is not None and name in catalogued_names(entry.aws, BY_KIND[kind]):
                return service
    named = [dimensions[key] for key in SERVICE_DIMENSIONS if dimensions.get(key)]
    service_name = catalogued(settings, *named) or mentioned(settings, text)
    if service_name:
        return service_name
    if resource is None or resource[0] in IDENTIFIED_KINDS:
        return None
    return base_name(resource[1])
