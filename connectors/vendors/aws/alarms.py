"""CloudWatch alarms: the one that fired, what it is composed of, those that are firing about the
same services, and when each changed its state."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Scope, Window
from faultline.connectors.shared.contract.base import Item
from faultline.connectors.shared.rows.collection_builder import full_window
from faultline.connectors.vendors.aws.alarm_metrics import (
    AlarmMetric,
    alarm_dimensions,
    condition,
    metric_of,
)
from faultline.connectors.vendors.aws.calls import AwsCalls, objects
from faultline.connectors.vendors.aws.console import alarm_link, firing_link
from faultline.connectors.vendors.aws.evidence import AwsEvidence, cut_note, moment, words
from faultline.connectors.vendors.aws.resource import Resource
from faultline.connectors.vendors.aws.resource_kinds import base_name, resource_names
from faultline.connectors.vendors.aws.session import AwsPlace

MOST_FIRING = 500
MOST_CHILDREN = 100
MOST_HISTORIES = 10
MOST_METRICS = 10
HISTORY_PAGE = 100
_TYPES = ["MetricAlarm", "CompositeAlarm"]


@dataclass(frozen=True)
class AlarmName:
    """An alarm that the alert speaks of."""

    name: str
    place: AwsPlace


@dataclass
class Alarms:
    """Alarms of interest, with the metrics to look at first. The alert's own come first."""

    evidence: AwsEvidence = field(default_factory=AwsEvidence)
    metrics: list[AlarmMetric] = field(default_factory=list)
    resources: list[Resource] = field(default_factory=list)
    """What the alert's own alarm is about, where the catalogue does not know it."""


async def alert_alarms(
    calls: AwsCalls, named: Sequence[AlarmName], service: str | None, scope: Scope
) -> Alarms:
    """The alarm that the alert names, its children where it is composite, and their history."""
    alarms = Alarms()
    for alarm_name in named:
        query = f"DescribeAlarms {alarm_name.place} {alarm_name.name}"
        try:
            described = await _described(calls, alarm_name.place, AlarmNames=[alarm_name.name])
            children = await _children(calls, alarm_name, described)
        except FaultlineError as error:
            alarms.evidence.lacks("monitors", query, error)
            continue
        if not described:
            continue
        await _take(calls, alarms, alarm_name.place, [*described, *children], service, scope)
        _look_at(alarms, alarm_name.place, [*described, *children], service)
        link = alarm_link(alarm_name.place.region, alarm_name.name)
        details = {
            "condition": condition(described[0]),
            "reason": words(described[0].get("StateReason")),
        }
        rows = 1 + len(children)
        alarms.evidence.items.append(
            Item("monitors", query, full_window(scope), link, rows=rows, details=details)
        )
    # CloudWatch answers an unknown name with an empty list, not with an error.
    if named and not alarms.evidence.items and not alarms.evidence.missing:
        alarms.evidence.lacks(
            "monitors", f"DescribeAlarms {named[0].name}", "no alarm of that name"
        )
    return alarms


async def named_metric(
    calls: AwsCalls, named: Sequence[AlarmName], service: str | None
) -> AlarmMetric | None:
    """What the alarm of the alert compares with a number; of a composite one, the first of its
    children that does. Raises FaultlineError."""
    for alarm_name in named:
        described = await _described(calls, alarm_name.place, AlarmNames=[alarm_name.name])
        children = await _children(calls, alarm_name, described)
        # Of the children those that are in alarm made it fire.
        children.sort(key=lambda alarm: alarm.get("StateValue") != "ALARM")
        for alarm in [*described, *children]:
            metric = metric_of(alarm, alarm_name.place, service)
            if metric is not None and metric.threshold is not None:
                return metric
    return None


async def firing_alarms(
    calls: AwsCalls, place: AwsPlace, resources: Sequence[Resource], scope: Scope
) -> AwsEvidence:
    """Alarms that are firing now about the services in scope."""
    alarms = Alarms()
    query = f"DescribeAlarms {place} StateValue=ALARM"
    try:
        page = await calls.pages(
            place,
            "cloudwatch",
            "DescribeAlarms",
            "MetricAlarms",
            most=MOST_FIRING,
            StateValue="ALARM",
        )
    except FaultlineError as error:
        alarms.evidence.lacks("monitors", query, error)
        return alarms.evidence
    service_of = {
        (resource.kind, resource.name): resource.service
        for resource in resources
        if resource.place == place
    }
    for alarm in objects(page.entries):
        # An alarm names no service: the resource in its dimensions leads to it.
        service = next((s for d in alarm_dimensions(alarm) if (s := _service(d, service_of))), None)
        if service is not None:
            await _take(calls, alarms, place, [alarm], service, scope)
    cut = cut_note(len(page.entries), more=page.more, what="firing alarms")
    rows = len(alarms.evidence.rows.get("monitors", ()))
    link = firing_link(place.region)
    alarms.evidence.items.append(
        Item("monitors", query, full_window(scope), link, rows=rows, cut=cut)
    )
    return alarms.evidence


async def _described(calls: AwsCalls, place: AwsPlace, **params: Any) -> list[Mapping[str, Any]]:
    answer = await calls.call(place, "cloudwatch", "DescribeAlarms", AlarmTypes=_TYPES, **params)
    return [*objects(answer.get("MetricAlarms")), *objects(answer.get("CompositeAlarms"))]


async def _children(
    calls: AwsCalls, alarm_name: AlarmName, described: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """What a composite alarm is made of; asked for its children, AWS names them and no more."""
    if not any(alarm.get("AlarmRule") for alarm in described):
        return []
    listed = await _described(calls, alarm_name.place, ChildrenOfAlarmName=alarm_name.name)
    names = [words(alarm.get("AlarmName"), 255) for alarm in listed if alarm.get("AlarmName")]
    return (
        await _described(calls, alarm_name.place, AlarmNames=names[:MOST_CHILDREN]) if names else []
    )


async def _take(
    calls: AwsCalls,
    alarms: Alarms,
    place: AwsPlace,
    described: Sequence[Mapping[str, Any]],
    service: str | None,
    scope: Scope,
) -> None:
    """Rows of these alarms: their state now, and each earlier one in the windows."""
    for alarm in described:
        name, since = words(alarm.get("AlarmName"), 255), moment(alarm.get("StateUpdatedTimestamp"))
        if name and since is not None:
            state = words(alarm.get("StateValue"), 40)
            alarms.evidence.add(
                "monitors", [(name, service, state, since, alarm_link(place.region, name))]
            )
    # Each history takes a call, so bound how many are read.
    requested_words = [words(alarm.get("AlarmName"), 255) for alarm in described[:MOST_HISTORIES]]
    await asyncio.gather(
        *(
            _history(calls, alarms.evidence, place, name, service, full_window(scope))
            for name in requested_words
        )
    )


async def _history(
    calls: AwsCalls,
    aws_evidence: AwsEvidence,
    place: AwsPlace,
    name: str,
    service: str | None,
    window: Window,
) -> None:
    try:
        answer = await calls.call(
            place,
            "cloudwatch",
            "DescribeAlarmHistory",
            AlarmName=name,
            HistoryItemType="StateUpdate",
            StartDate=window.start,
            EndDate=window.end,
            MaxRecords=HISTORY_PAGE,
        )
    except FaultlineError as error:
        aws_evidence.lacks("monitors", f"DescribeAlarmHistory {place} {name}", error)
        return
    for update in objects(answer.get("AlarmHistoryItems")):
        at, state = moment(update.get("Timestamp")), _new_state(update.get("HistoryData"))
        if at is not None and state:
            aws_evidence.add(
                "monitors", [(name, service, state, at, alarm_link(place.region, name))]
            )


class _State(msgspec.Struct):
    stateValue: str = ""


class _HistoryData(msgspec.Struct):
    newState: _State = msgspec.field(default_factory=_State)


def _new_state(data: Any) -> str:
    try:
        return words(
            msgspec.json.decode(
                data if isinstance(data, str) else "{}", type=_HistoryData
            ).newState.stateValue,
            40,
        )
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return ""


def _look_at(
    alarms: Alarms, place: AwsPlace, described: Sequence[Mapping[str, Any]], service: str | None
) -> None:
    for alarm in described[:MOST_METRICS]:
        named = [n for d in alarm_dimensions(alarm) if (n := resource_names(d))]
        # Without a catalogued service, the resource or the alarm stands for it.
        whose = service or (base_name(named[0][1]) if named else words(alarm.get("AlarmName"), 255))
        metric = metric_of(alarm, place, whose)
        if metric is not None:
            alarms.metrics.append(metric)
        alarms.resources += [Resource(kind, name, whose, place) for kind, name in named]


def _service(
    dimensions: Mapping[str, str], service_of: Mapping[tuple[Any, str], str]
) -> str | None:
    named = resource_names(dimensions)
    return service_of.get(named) if named else None
