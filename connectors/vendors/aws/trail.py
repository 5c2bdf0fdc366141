"""CloudTrail: who changed the resources of services. At most two lookups a second, so the resources
are few."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import ChangeKind, Scope, Window
from faultline.connectors.shared.contract.base import Item
from faultline.connectors.vendors.aws.calls import AwsCalls, objects
from faultline.connectors.vendors.aws.console import trail_event_link, trail_link
from faultline.connectors.vendors.aws.evidence import (
    AwsEvidence,
    changes_window,
    cut_note,
    moment,
    within,
    words,
)
from faultline.connectors.vendors.aws.resource import Resource
from faultline.connectors.vendors.aws.resource_kinds import BY_KIND

MOST_RESOURCES = 8
"""Of one place: at two lookups a second, four seconds."""
MOST_EVENTS = 100
LATE = "CloudTrail lists events up to 15 minutes late"
"""CloudTrail user guide, "Viewing events with event history"."""
SAME_CHANGE = timedelta(minutes=3)
"""A deployment and the call that started it are one change."""
NOISE = re.compile(
    r"^(Start|Stop)Query$|^AssumeRole|^CreateLogStream$|^PutLogEvents$|"
    r"^(Register|Deregister)Targets$|Tag"
)
"""Calls that change nothing a service would feel, or that AWS makes by itself with each task that
comes and goes."""
_KINDS: tuple[tuple[ChangeKind, re.Pattern[str]], ...] = (
    ("scale", re.compile(r"Capacity|Scal|Concurrency|UpdateShardCount")),
    (
        "deploy",
        re.compile(
            r"Deploy|FunctionCode|PublishVersion|TaskDefinition|UpdateService$|UpdateAlias|Stack"
        ),
    ),
    ("migration", re.compile(r"Migrat|UpgradeDB|ApplyPendingMaintenance")),
)
"""By the name of the call; what is left is configuration."""


class _Identity(msgspec.Struct):
    type: str = ""
    arn: str = ""
    userName: str = ""
    invokedBy: str = ""


class _TrailEvent(msgspec.Struct):
    """The parts of a CloudTrail record that are kept (CloudTrail record contents)."""

    eventSource: str = ""
    errorCode: str = ""
    requestParameters: dict[str, Any] | None = None
    userIdentity: _Identity = msgspec.field(default_factory=_Identity)


async def trail_of(calls: AwsCalls, resources: Sequence[Resource], scope: Scope) -> AwsEvidence:
    """Calls that wrote to these resources, all of one place."""
    aws_evidence = AwsEvidence()
    window = changes_window(scope)
    resources_by_short_name = list(
        {
            resource.short_name: resource
            for resource in resources
            if BY_KIND[resource.kind].in_trail
        }.values()
    )
    # One after the other, because two lookups a second are allowed.
    for resource in resources_by_short_name[:MOST_RESOURCES]:
        await _of_resource(calls, resource, window, aws_evidence)
    if len(resources_by_short_name) > MOST_RESOURCES:
        left = ", ".join(
            resource.short_name for resource in resources_by_short_name[MOST_RESOURCES:][:10]
        )
        aws_evidence.lacks(
            "changes",
            f"LookupEvents {resources_by_short_name[0].place}",
            f"not asked, two a second being allowed: {left}",
        )
    return aws_evidence


async def _of_resource(
    calls: AwsCalls, resource: Resource, window: Window, aws_evidence: AwsEvidence
) -> None:
    query = f"LookupEvents {resource.place} ResourceName={resource.short_name}"
    try:
        page = await calls.pages(
            resource.place,
            "cloudtrail",
            "LookupEvents",
            "Events",
            most=MOST_EVENTS,
            most_pages=2,
            LookupAttributes=[
                {"AttributeKey": "ResourceName", "AttributeValue": resource.short_name}
            ],
            StartTime=window.start,
            EndTime=window.end,
            MaxResults=50,
        )
    except FaultlineError as error:
        aws_evidence.lacks("changes", query, error)
        return
    rows = [
        row for event in objects(page.entries) if (row := _row(resource, event, window)) is not None
    ]
    aws_evidence.add("changes", rows)
    cut = cut_note(len(page.entries), more=page.more, what="events")
    link = trail_link(resource.place.region, resource.short_name, window)
    item = Item("changes", query, window, link, rows=len(rows), cut=cut, details={"note": LATE})
    aws_evidence.items.append(item.holding(rows))


def _row(resource: Resource, event: Mapping[str, Any], window: Window) -> tuple[Any, ...] | None:
    at, name = moment(event.get("EventTime")), words(event.get("EventName"), 80)
    if event.get("ReadOnly") == "true" or not within(at, window) or not name or NOISE.search(name):
        return None
    record = _record(event.get("CloudTrailEvent"))
    # A call that failed changed nothing.
    if record.errorCode:
        return None
    who = words(event.get("Username"), 80) or words(record.userIdentity.userName, 80)
    who = who or words(record.userIdentity.invokedBy, 80)
    source = words(event.get("EventSource") or record.eventSource, 60).removesuffix(
        ".amazonaws.com"
    )
    kind = _kind(name, record.requestParameters or {})
    title = (
        f"{source} {name} on {resource.short_name}{_parameter_text(record.requestParameters or {})}"
    )
    identity = words(event.get("EventId"), 64)
    link = trail_event_link(resource.place.region, identity)
    return at, resource.service, kind, identity, title, who or None, link, None, None


def _kind(name: str, parameters: Mapping[str, Any]) -> ChangeKind:
    # UpdateService deploys as well as scales: its parameters tell which.
    if (
        name == "UpdateService"
        and "desiredCount" in parameters
        and "taskDefinition" not in parameters
    ):
        return "scale"
    return next((kind for kind, names in _KINDS if names.search(name)), "config")


def _parameter_text(parameters: Mapping[str, Any]) -> str:
    """The few parameters that say what was changed; others may hold secrets, and are not kept."""
    shown_keys = (
        "taskDefinition",
        "desiredCount",
        "dBInstanceClass",
        "reservedConcurrentExecutions",
        "memorySize",
        "timeout",
    )
    pairs = [
        f"{key} {words(parameters[key], 80)}"
        for key in shown_keys
        if parameters.get(key) not in (None, "")
    ]
    return f" ({', '.join(pairs)})" if pairs else ""


def _record(text: Any) -> _TrailEvent:
    try:
        return msgspec.json.decode(text if isinstance(text, str) else "{}", type=_TrailEvent)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return _TrailEvent()


def joined(deployments: AwsEvidence, trail: AwsEvidence) -> None:
    """Where CloudTrail reports a deployment that is known already, its author is written there and
    it is left out."""
    changes = deployments.rows.get("changes", [])
    rows = []
    for row in trail.rows.get("changes", []):
        place: int | None
        if row[2] != "deploy":
            place = None
        else:
            # The same service at about the same time: CloudTrail names calls, not deployments.
            near = [
                n
                for n, change in enumerate(changes)
                if change[1] == row[1] and abs(change[0] - row[0]) <= SAME_CHANGE
            ]
            place = min(near, key=lambda n: abs(changes[n][0] - row[0]), default=None)
        if place is None:
            rows.append(row)
        # Element 5 is the author, which ECS and Lambda do not name.
        elif changes[place][5] is None:
            changes[place] = (*changes[place][:5], row[5], *changes[place][6:])
    if "changes" in trail.rows:
        trail.rows["changes"] = rows
