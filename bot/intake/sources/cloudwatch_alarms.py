"""CloudWatch alarms as alerts: what an alarm sends to its topic, and EventBridge's event of the
same change.

Shapes: CloudWatch user guide, "Alarm events and EventBridge"; the alarm's own message is not
documented, and is read as alarms send it. The two write dimensions differently, as a list and as an
object, both in either case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from analysis.vocabulary import Alert, Link
from bot.intake.accepting import Ignored
from bot.intake.payload_fields import Line, Payload, Rows, Table, Text, When, json_object, one_line
from bot.intake.service_names import catalogued, mentioned
from bot.settings import Settings
from connectors.aws.console import alarm_link
from connectors.aws.metric_templates import resource_names, signal_of

SOURCE = "cloudwatch"
EVENT = "CloudWatch Alarm State Change"
FIRING, RESOLVED, NO_DATA = "ALARM", "OK", "INSUFFICIENT_DATA"
MOST_DIMENSIONS = 30
SERVICE_DIMENSIONS = ("ServiceName", "Service", "service.name", "service", "app")
"""Dimensions that name a service: of ECS, of Application Signals and OpenTelemetry, and what teams
call theirs."""
_ARN = re.compile(r"arn:aws[a-z-]*:cloudwatch:([a-z0-9-]{1,30}):(\d{12}):alarm:.{1,255}")
_OBSERVED = re.compile(r"datapoints? \[(-?[\d.]{1,30}(?:E-?\d{1,3})?) ")
"""The last value, as it stands in an alarm's reason."""


def _dimensions(value: Any) -> dict[str, str]:
    """Name to value from `[{"name": ..., "value": ...}]` or `{name: value}`, keys in either
    case."""
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        rows = [
            {str(k).lower(): v for k, v in row.items()}
            for row in value[:MOST_DIMENSIONS]
            if isinstance(row, dict)
        ]
        pairs = [(row.get("name"), row.get("value")) for row in rows]
    else:
        pairs = []
    cleaned = (
        (one_line(name, 255), one_line(text, 1_000)) for name, text in pairs[:MOST_DIMENSIONS]
    )
    return {name: text for name, text in cleaned if name and text}


Pairs = Annotated[dict[str, str], BeforeValidator(_dimensions)]


class OneMetric(Payload):
    """A metric, with the names of both shapes."""

    MetricName: Line = ""
    name: Line = ""
    Namespace: Line = ""
    namespace: Line = ""
    Dimensions: Pairs = Field(default_factory=dict)
    dimensions: Pairs = Field(default_factory=dict)


class OneStat(Payload):
    """A metric and a statistic."""

    Metric: Table[OneMetric] = Field(default_factory=OneMetric)
    metric: Table[OneMetric] = Field(default_factory=OneMetric)
    Stat: Line = ""
    stat: Line = ""


class Query(Payload):
    """One of the metrics of an expression."""

    MetricStat: Table[OneStat] = Field(default_factory=OneStat)
    metricStat: Table[OneStat] = Field(default_factory=OneStat)


class Condition(OneMetric):
    """What an alarm waits for."""

    Statistic: Line = ""
    ExtendedStatistic: Line = ""
    Threshold: Line = ""
    Metrics: Rows[Query] = ()


class AlarmMessage(Payload):
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
    Trigger: Table[Condition] = Field(default_factory=Condition)


class State(Payload):
    """A state in an event."""

    value: Line = ""
    reason: Text = ""
    reasonData: Text = ""
    timestamp: When = None
    actionsSuppressedBy: Line = ""


class Configuration(Payload):
    """An alarm's configuration in an event."""

    description: Text = ""
    alarmRule: Line = ""
    metrics: Rows[Query] = ()


class Detail(Payload):
    """The event's own part."""

    alarmName: Line = ""
    state: Table[State] = Field(default_factory=State)
    previousState: Table[State] = Field(default_factory=State)
    configuration: Table[Configuration] = Field(default_factory=Configuration)


class AlarmEvent(Payload):
    """EventBridge's event."""

    account: Line = ""
    region: Line = ""
    resources: Annotated[
        Line, BeforeValidator(lambda v: v[0] if isinstance(v, list) and v else "")
    ] = ""
    detail: Table[Detail] = Field(default_factory=Detail)


def read_alarm(text: str, region: str, settings: Settings, *, now: datetime) -> Alert | Ignored:
    """The alert in a message's text; `region` is the topic's. Never fails: what is no alarm is
    ignored."""
    payload = json_object(text.encode("utf-8", "replace"))
    if payload is None:
        return Ignored("the message is not a JSON object, as alarms are")
    if payload.get("detail-type") == EVENT and payload.get("source") == "aws.cloudwatch":
        return _of_event(AlarmEvent.model_validate(payload), region, settings, now)
    message = AlarmMessage.model_validate(payload)
    if not message.AlarmName or message.NewStateValue not in (FIRING, RESOLVED, NO_DATA):
        return Ignored("the message is no change of an alarm's state")
    trigger = message.Trigger
    metric = next(
        (one.MetricStat for one in trigger.Metrics if one.MetricStat.Metric.MetricName), None
    )
    own = metric.Metric if metric and not trigger.MetricName else trigger
    return _alert(
        settings,
        name=message.AlarmName,
        arn=message.AlarmArn,
        account=message.AWSAccountId,
        region=region,
        state=message.NewStateValue,
        before=message.OldStateValue,
        about=message.AlarmDescription,
        reason=message.NewStateReason,
        at=message.StateChangeTime or now,
        metric=(
            own.Namespace,
            own.MetricName,
            trigger.ExtendedStatistic or trigger.Statistic or _stat(metric),
        ),
        dimensions=own.Dimensions,
        threshold=_number(trigger.Threshold),
        observed=_observed(message.NewStateReason),
    )


def _of_event(event: AlarmEvent, region: str, settings: Settings, now: datetime) -> Alert | Ignored:
    detail, state = event.detail, event.detail.state
    if not detail.alarmName or state.value not in (FIRING, RESOLVED):
        return Ignored(f"nothing to do for an alarm whose state is {state.value or 'not told'}")
    if state.actionsSuppressedBy:
        return Ignored("the alarm's actions are suppressed")
    metric = next(
        (one.metricStat for one in detail.configuration.metrics if one.metricStat.metric.name),
        OneStat(),
    )
    data = json_object(state.reasonData.encode("utf-8", "replace")) or {}
    recent = data.get("recentDatapoints")
    last = one_line(recent[-1]) if isinstance(recent, list) and recent else ""
    return _alert(
        settings,
        name=detail.alarmName,
        arn=event.resources,
        account=event.account,
        region=event.region or region,
        state=state.value,
        before=detail.previousState.value,
        about=detail.configuration.description,
        reason=state.reason,
        at=state.timestamp or now,
        metric=(metric.metric.namespace, metric.metric.name, metric.stat),
        dimensions=metric.metric.dimensions,
        threshold=_number(one_line(data.get("threshold"))),
        observed=_number(last),
    )


def _alert(
    settings: Settings,
    *,
    name: str,
    arn: str,
    account: str,
    region: str,
    state: str,
    before: str,
    about: str,
    reason: str,
    at: datetime,
    metric: tuple[str, str, str],
    dimensions: Mapping[str, str],
    threshold: float | None,
    observed: float | None,
) -> Alert:
    known = _ARN.fullmatch(arn)
    region, account = (known[1], known[2]) if known else (region, account)
    identity = arn if known else f"{account}/{region}/{name}"
    labels = {
        "alarm_name": name,
        "alarm_arn": arn if known else "",
        "aws_account": account,
        "aws_region": region,
        "namespace": metric[0],
        "metric": metric[1],
        "statistic": metric[2],
        "state": state,
        "previous_state": before,
        **{f"dimension.{key}": value for key, value in dimensions.items()},
        "fingerprint": identity,
    }
    return Alert(
        source=SOURCE,
        id=identity,
        title=name if state != NO_DATA else f"{name} has no data",
        started_at=at,
        status="resolved" if state == RESOLVED else "firing",
        service=service_of(dimensions, f"{name} {about}", settings),
        signal=signal_of(*metric)[0] if metric[1] else None,
        summary="\n".join(filter(None, (about, reason))) or None,
        threshold=threshold,
        observed=observed,
        labels={key: value for key, value in labels.items() if value},
        links=(Link(title="CloudWatch alarm", url=alarm_link(region, name)),),
    )


def service_of(dimensions: Mapping[str, str], text: str, settings: Settings) -> str | None:
    """Whose resource it is by the catalogue; else the service that the alarm's words name, else the
    resource itself."""
    resource = resource_names(dimensions)
    if resource is not None:
        kind, name = resource
        for service, entry in settings.services.items():
            if entry.aws is not None and name in _names(entry.aws, kind):
                return service
    named = [dimensions[key] for key in SERVICE_DIMENSIONS if dimensions.get(key)]
    if found := catalogued(settings, *named) or mentioned(settings, text):
        return found
    return resource[1].rpartition("/")[2] if resource else None


def _names(entry: Any, kind: str) -> tuple[str, ...]:
    keys = {
        "ecs": "ecs",
        "target_group": "target_groups",
        "lambda": "lambdas",
        "database": "databases",
        "queue": "queues",
        "api": "apis",
    }
    names: tuple[str, ...] = getattr(entry, keys[kind])
    return names


def _stat(metric: OneStat | None) -> str:
    return metric.Stat if metric else ""


def _observed(reason: str) -> float | None:
    found = _OBSERVED.search(reason[:1_000])
    return _number(found[1]) if found else None


def _number(text: str) -> float | None:
    try:
        value = float(text[:40])
    except ValueError:
        return None
    return value if abs(value) < 1e300 else None
