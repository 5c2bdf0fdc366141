"""What AWS itself says happened: events of ECS services, why tasks stopped, events of databases; as
log lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from analysis.errors import FaultlineError
from analysis.vocabulary import Scope
from connectors.aws.calls import AwsCalls, objects
from connectors.aws.console import database_link, ecs_link
from connectors.aws.evidence import AwsEvidence, cut_note, moment, within, words
from connectors.aws.logs import task_log_groups
from connectors.aws.resource import Resource
from connectors.base import Item
from connectors.collection_builder import full_window

MOST_TASKS = 100
"""DescribeTasks takes so many; ECS forgets a stopped task after an hour (ECS API reference)."""
MOST_EVENTS = 300
LONGEST_BACK = timedelta(days=14)
"""RDS keeps events so long (RDS API reference, DescribeEvents)."""
_TROUBLE = re.compile(
    r"unable|fail|unhealthy|error|out ?of ?memory|oom|killed|not "
    r"(enough|available)|insufficient|rolling back|"
    r"failover|restart|reboot|shutdown|exceed|storage.full|stopped",
    re.IGNORECASE,
)
_PLANNED = re.compile(
    r"scaling activity|has reached a steady state|has started|deployment initiated", re.IGNORECASE
)


async def ecs_happenings(
    calls: AwsCalls, resource: Resource, scope: Scope, written: dict[Resource, tuple[str, ...]]
) -> AwsEvidence:
    """The service's events and stopped tasks. The log groups that its tasks write to are put into
    `written`."""
    found = AwsEvidence()
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
        found.lacks("logs", query, error)
        return found
    services = objects(answer.get("services"))
    if not services:
        found.lacks("logs", query, "no such ECS service")
        return found
    window = full_window(scope)
    rows = [_event_row(resource, one) for one in objects(services[0].get("events"))[:MOST_EVENTS]]
    kept = [row for row in rows if row is not None and within(row[0], window)]
    found.add("logs", kept)
    link = ecs_link(resource.place.region, resource.cluster, resource.short_name, "events")
    found.items.append(Item("logs", f"{query} events", window, link, rows=len(kept)))
    await _stopped_tasks(calls, resource, scope, found)
    definition = words(services[0].get("taskDefinition"), 1600)
    if definition:
        try:
            described = await calls.call(
                resource.place, "ecs", "DescribeTaskDefinition", taskDefinition=definition
            )
            written[resource] = task_log_groups([described.get("taskDefinition")])
        except FaultlineError as error:
            found.lacks("logs", f"log groups of {resource.name}", error)
    return found


async def _stopped_tasks(
    calls: AwsCalls, resource: Resource, scope: Scope, found: AwsEvidence
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
        arns = [one for one in page.entries if isinstance(one, str)]
        answer = (
            await calls.call(
                resource.place, "ecs", "DescribeTasks", cluster=resource.cluster, tasks=arns
            )
            if arns
            else {}
        )
    except FaultlineError as error:
        found.lacks("logs", query, error)
        return
    window = full_window(scope)
    rows = [
        row
        for task in objects(answer.get("tasks"))
        if (row := _task_row(resource, task)) is not None
    ]
    kept = [row for row in rows if within(row[0], window)]
    found.add("logs", kept)
    link = ecs_link(resource.place.region, resource.cluster, resource.short_name, "tasks")
    cut = cut_note(len(arns), more=page.more, what="stopped tasks")
    details = {"note": "ECS forgets a stopped task after an hour"}
    found.items.append(Item("logs", query, window, link, rows=len(kept), cut=cut, details=details))


async def database_happenings(calls: AwsCalls, resource: Resource, scope: Scope) -> AwsEvidence:
    """Events of a database: failovers and restarts as log lines, changes of its configuration as
    changes."""
    found = AwsEvidence()
    window = full_window(scope)
    query = f"DescribeEvents {resource.place} db-instance {resource.name}"
    try:
        page = await calls.pages(
            resource.place,
            "rds",
            "DescribeEvents",
            "Events",
            most=MOST_EVENTS,
            SourceIdentifier=resource.name,
            SourceType="db-instance",
            StartTime=max(window.start, window.end - LONGEST_BACK),
            EndTime=window.end,
        )
    except FaultlineError as error:
        found.lacks("logs", query, error)
        return found
    link = database_link(resource.place.region, resource.name)
    count = 0
    for event in objects(page.entries):
        at, said = moment(event.get("Date")), words(event.get("Message"))
        categories = event.get("EventCategories")
        kinds = categories if isinstance(categories, list) else []
        if at is None or not within(at, window) or not said:
            continue
        count += 1
        found.add("logs", [_log_row(at, resource, f"RDS {resource.name}: {said}", said)])
        if "configuration change" in kinds or "maintenance" in kinds:
            identity = f"{resource.name} {at.isoformat()}"
            found.add(
                "changes",
                [(at, resource.service, "config", identity, said, None, link, None, None)],
            )
    cut = cut_note(len(page.entries), more=page.more, what="events")
    found.items.append(Item("logs", query, window, link, rows=count, cut=cut))
    return found


def _event_row(resource: Resource, event: Mapping[str, Any]) -> tuple[Any, ...] | None:
    at, said = moment(event.get("createdAt")), words(event.get("message"))
    return _log_row(at, resource, f"ECS: {said}", said) if at is not None and said else None


def _task_row(resource: Resource, task: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Why a task stopped: its own reason, and those of its containers with their exit codes."""
    at = moment(task.get("stoppedAt")) or moment(task.get("stoppingAt"))
    if at is None:
        return None
    said = words(task.get("stoppedReason"), 200)
    for container in objects(task.get("containers"))[:10]:
        code, reason = container.get("exitCode"), words(container.get("reason"), 200)
        if reason or (isinstance(code, int) and code != 0):
            exit_code = f" exit code {code}" if isinstance(code, int) else ""
            said += (
                "; container "
                f"{words(container.get('name'), 80)}{exit_code}{': ' + reason if reason else ''}"
            )
    by_scheduler = said.startswith("Scaling activity")
    level = "info" if by_scheduler else "error"
    return at, resource.service, f"ECS task stopped: {said}", level, None, _attributes(resource)


def _log_row(at: Any, resource: Resource, message: str, said: str) -> tuple[Any, ...]:
    level = "error" if _TROUBLE.search(said) and not _PLANNED.search(said) else "info"
    return at, resource.service, message, level, None, _attributes(resource)


def _attributes(resource: Resource) -> str:
    return msgspec.json.encode({"resource": f"{resource.kind} {resource.name}"}).decode()
