"""What AWS itself says happened: events of ECS services, why tasks stopped, events of databases; as
log lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Scope
from faultline.connectors.shared.contract.base import Item
from faultline.connectors.shared.rows.collection_builder import (
    ChangeRow,
    LogRow,
    full_window,
    readable,
)
from faultline.connectors.vendors.aws.calls import AwsCalls, objects
from faultline.connectors.vendors.aws.console import ecs_link
from faultline.connectors.vendors.aws.database_states import (
    EVENT_SOURCES,
    LONGEST_BACK,
    event_link,
    event_states,
)
from faultline.connectors.vendors.aws.evidence import AwsEvidence, cut_note, moment, within, words
from faultline.connectors.vendors.aws.logs import task_log_groups
from faultline.connectors.vendors.aws.resource import Resource

MOST_TASKS = 100
"""DescribeTasks takes that many; ECS forgets a stopped task after an hour (ECS API reference)."""
MOST_EVENTS = 300
MOST_CONTAINERS = 10
"""Containers of one task; ECS allows as many in a task definition."""
_TROUBLE = re.compile(
    r"unable|fail|unhealthy|error|out ?of ?memory|oom|killed|not "
    r"(enough|available)|insufficient|rolling back|"
    r"failover|restart|reboot|shutdown|exceed|storage.full|stopped",
    re.IGNORECASE,
)
# Planned work is described in the same words as trouble.
_PLANNED = re.compile(
    r"scaling activity|has reached a steady state|has started|deployment initiated", re.IGNORECASE
)


async def ecs_happenings(
    calls: AwsCalls, resource: Resource, scope: Scope, written: dict[Resource, tuple[str, ...]]
) -> AwsEvidence:
    """The service's events and stopped tasks. The log groups that its tasks write to are put into
    `written`."""
    aws_evidence = AwsEvidence()
    query = f"DescribeServices {resource.place} {resource.name}"
    try:
        answer = await calls.call(
            resource.place,
            "ecs",
            "DescribeServices",
            cluster=resource.cluster,
            services=[resource.short_name],
        )
    except FaultlineError as error:
        aws_evidence.lacks("logs", query, error)
        return aws_evidence
    services = objects(answer.get("services"))
    if not services:
        aws_evidence.lacks("logs", query, "no such ECS service")
        return aws_evidence
    window = full_window(scope)
    listed = objects(services[0].get("events"))[:MOST_EVENTS]
    rows = readable(_event_row(resource, event) for event in listed)
    remaining_rows = [row for row in rows if within(row.time, window)]
    aws_evidence.add("logs", remaining_rows)
    link = ecs_link(resource.place.region, resource.cluster, resource.short_name, "events")
    item = Item("logs", f"{query} events", window, link, rows=len(remaining_rows))
    aws_evidence.items.append(item.holding(remaining_rows))
    await _stopped_tasks(calls, resource, scope, aws_evidence)
    # The task definition says which log groups the containers write to.
    definition = words(services[0].get("taskDefinition"), 1600)
    if definition:
        try:
            described = await calls.call(
                resource.place, "ecs", "DescribeTaskDefinition", taskDefinition=definition
            )
            written[resource] = task_log_groups([described.get("taskDefinition")])
        except FaultlineError as error:
            aws_evidence.lacks("logs", f"log groups of {resource.name}", error)
    return aws_evidence


async def _stopped_tasks(
    calls: AwsCalls, resource: Resource, scope: Scope, aws_evidence: AwsEvidence
) -> None:
    query = f"ListTasks {resource.place} {resource.name} desiredStatus=STOPPED"
    try:
        page = await calls.pages(
            resource.place,
            "ecs",
            "ListTasks",
            "taskArns",
            most=MOST_TASKS,
            cluster=resource.cluster,
            serviceName=resource.short_name,
            desiredStatus="STOPPED",
        )
        arns = [entry for entry in page.entries if isinstance(entry, str)]
        tasks: list[Mapping[str, Any]]
        if not arns:
            tasks = []
        else:
            answer = await calls.call(
                resource.place, "ecs", "DescribeTasks", cluster=resource.cluster, tasks=arns
            )
            tasks = objects(answer.get("tasks"))
    except FaultlineError as error:
        aws_evidence.lacks("logs", query, error)
        return
    window = full_window(scope)
    rows = readable(_task_row(resource, task) for task in tasks)
    remaining_rows = [row for row in rows if within(row.time, window)]
    aws_evidence.add("logs", remaining_rows)
    link = ecs_link(resource.place.region, resource.cluster, resource.short_name, "tasks")
    cut = cut_note(len(arns), more=page.more, what="stopped tasks")
    details = {"note": "ECS forgets a stopped task after an hour"}
    item = Item("logs", query, window, link, rows=len(remaining_rows), cut=cut, details=details)
    aws_evidence.items.append(item.holding(remaining_rows))


async def database_happenings(calls: AwsCalls, resource: Resource, scope: Scope) -> AwsEvidence:
    """Events of a database or cache: failovers and restarts as log lines, changes of its
    configuration as changes."""
    aws_evidence = AwsEvidence()
    window = full_window(scope)
    source = EVENT_SOURCES[resource.kind]
    query = f"DescribeEvents {resource.place} {source.type} {resource.name}"
    try:
        page = await calls.pages(
            resource.place,
            source.service,
            "DescribeEvents",
            "Events",
            most=MOST_EVENTS,
            SourceIdentifier=resource.name,
            SourceType=source.type,
            # The service has no older events.
            StartTime=max(window.start, window.end - LONGEST_BACK),
            EndTime=window.end,
        )
    except FaultlineError as error:
        aws_evidence.lacks("logs", query, error)
        return aws_evidence
    link = event_link(resource)
    events = objects(page.entries)
    lines: list[LogRow] = []
    changes: list[ChangeRow] = []
    states = event_states(resource, events, scope, query)
    for event in events:
        at = moment(event.get("Date"))
        event_text = words(event.get("Message"))
        categories = event.get("EventCategories")
        kinds = categories if isinstance(categories, list) else []
        if at is None or not within(at, window) or not event_text:
            continue
        lines.append(
            log_row(at, resource, f"{source.name} {resource.name}: {event_text}", event_text)
        )
        # Events of these categories change the database: they are changes as well as lines.
        if "configuration change" in kinds or "maintenance" in kinds:
            identity = f"{resource.name} {at.isoformat()}"
            changes.append(
                ChangeRow(at, resource.service, "config", identity, event_text, link=link)
            )
    aws_evidence.add("logs", lines)
    cut = cut_note(len(page.entries), more=page.more, what="events")
    item = Item("logs", query, window, link, rows=len(lines), cut=cut)
    aws_evidence.items.append(item.holding(lines))
    if changes:
        aws_evidence.add("changes", changes)
        item = Item("changes", query, window, link, rows=len(changes))
        aws_evidence.items.append(item.holding(changes))
    if states:
        aws_evidence.add("states", states)
        aws_evidence.items.append(Item("states", query, window, link, rows=len(states), cut=cut))
    return aws_evidence


def _event_row(resource: Resource, event: Mapping[str, Any]) -> LogRow | None:
    at = moment(event.get("createdAt"))
    event_text = words(event.get("message"))
    if at is None or not event_text:
        return None
    return log_row(at, resource, f"ECS: {event_text}", event_text)


def _task_row(resource: Resource, task: Mapping[str, Any]) -> LogRow | None:
    """Why a task stopped: its own reason, and those of its containers with their exit codes."""
    at = moment(task.get("stoppedAt")) or moment(task.get("stoppingAt"))
    if at is None:
        return None
    reason = words(task.get("stoppedReason"), 200)
    for container in objects(task.get("containers"))[:MOST_CONTAINERS]:
        reason += _container_end(container)
    # That is how ECS says that it scaled the service in.
    level = "info" if reason.startswith("Scaling activity") else "error"
    message = f"ECS task stopped: {reason}"
    return LogRow(at, resource.service, message, level, None, attributes(resource))


def _container_end(container: Mapping[str, Any]) -> str:
    """How a container ended; "" for one that ended as it should."""
    code = container.get("exitCode")
    reason = words(container.get("reason"), 200)
    failed = isinstance(code, int) and code != 0
    if not reason and not failed:
        return ""
    phrase = f"; container {words(container.get('name'), 80)}"
    if isinstance(code, int):
        phrase += f" exit code {code}"
    return f"{phrase}: {reason}" if reason else phrase


def log_row(at: datetime, resource: Resource, message: str, wording: str) -> LogRow:
    """A line of what AWS `wording`; an error where its words tell of trouble."""
    level = "error" if _TROUBLE.search(wording) and not _PLANNED.search(wording) else "info"
    return LogRow(at, resource.service, message, level, None, attributes(resource))


def attributes(resource: Resource) -> str:
    """What a log line of AWS itself is about, as JSON."""
    return msgspec.json.encode({"resource": f"{resource.kind} {resource.name}"}).decode()
