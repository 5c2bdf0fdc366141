"""EC2: what Auto Scaling did with the machines of a group, and how single machines are.

Causes and descriptions are those of "Verify a scaling activity" and "Troubleshoot unhealthy
instances" in the Amazon EC2 Auto Scaling user guide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Scope
from faultline.connectors.shared.contract.base import Item
from faultline.connectors.shared.rows.collection_builder import (
    ChangeRow,
    LogRow,
    StateRow,
    full_window,
)
from faultline.connectors.vendors.aws.calls import AwsCalls, objects
from faultline.connectors.vendors.aws.console import resource_link
from faultline.connectors.vendors.aws.evidence import (
    AwsEvidence,
    changes_window,
    cut_note,
    moment,
    within,
    words,
)
from faultline.connectors.vendors.aws.happenings import log_row
from faultline.connectors.vendors.aws.resource import Resource
from faultline.connectors.vendors.aws.resource_states import resource_state

MOST_ACTIVITIES = 200
ACTIVITY_PAGE = 100
"""The most that one answer holds (Auto Scaling API reference)."""
GONE = frozenset({"stopped", "stopping", "shutting-down", "terminated"})
_UNHEALTHY = re.compile(r"taken out of service in response to .{0,80}?(health|status) ?check")
_CHECKS = ("SystemStatus", "InstanceStatus", "AttachedEbsStatus")


async def scaling_activities(calls: AwsCalls, resource: Resource, scope: Scope) -> AwsEvidence:
    """Activities of one group: each a change, those that failed or replaced a machine lines and
    facts as well."""
    aws_evidence = AwsEvidence()
    query = f"DescribeScalingActivities {resource.place} {resource.name}"
    try:
        page = await calls.pages(
            resource.place,
            "autoscaling",
            "DescribeScalingActivities",
            "Activities",
            most=MOST_ACTIVITIES,
            AutoScalingGroupName=resource.name,
            MaxRecords=ACTIVITY_PAGE,
        )
    except FaultlineError as error:
        aws_evidence.lacks("changes", query, error)
        return aws_evidence
    span, window = full_window(scope), changes_window(scope)
    changes: list[ChangeRow] = []
    lines: list[LogRow] = []
    states: list[StateRow] = []
    for activity in objects(page.entries):
        at = moment(activity.get("StartTime"))
        if at is None or not within(at, window):
            continue
        changes.append(_change(resource, activity, at))
        activity_text = _activity_text(activity)
        fact = _fact(activity)
        # A change may precede the harm by hours; a failure counts in the windows alone.
        if fact and within(at, span):
            lines.append(
                log_row(
                    at, resource, f"Auto Scaling {resource.name}: {activity_text}", activity_text
                )
            )
            row = resource_state(resource, fact, "activity", activity_text, query, since=at)
            states.append(row._replace(link=resource_link(resource)))
    cut = cut_note(len(page.entries), more=page.more, what="activities")
    link = resource_link(resource)
    aws_evidence.add("changes", changes)
    item = Item("changes", query, window, link, rows=len(changes), cut=cut)
    aws_evidence.items.append(item.holding(changes))
    if aws_evidence.add("logs", lines):
        aws_evidence.items.append(Item("logs", query, span, link, rows=len(lines)).holding(lines))
    if aws_evidence.add("states", states):
        aws_evidence.items.append(Item("states", query, span, link, rows=len(states)))
    return aws_evidence


def _change(resource: Resource, activity: Mapping[str, Any], at: datetime) -> ChangeRow:
    status = words(activity.get("StatusCode"), 40)
    description = words(activity.get("Description"), 200)
    title = f"Auto Scaling {resource.name}: {description} ({status})"
    identity = words(activity.get("ActivityId"), 100)
    link = resource_link(resource)
    return ChangeRow(at, resource.service, "scale", identity, title, link=link)


def _activity_text(activity: Mapping[str, Any]) -> str:
    parts = [words(activity.get("Description"), 200)]
    # The status says why an activity failed, the cause why it began.
    for key in ("StatusMessage", "Cause"):
        detail = words(activity.get(key), 300)
        if detail:
            parts.append(detail)
            break
    return ": ".join(parts)


def _fact(activity: Mapping[str, Any]) -> str | None:
    description = words(activity.get("Description"), 200)
    if activity.get("StatusCode") == "Failed" and description.startswith("Launching"):
        return "launch_failed"
    if _UNHEALTHY.search(words(activity.get("Cause"), 500)):
        return "machine_lost"
    return None


async def instance_states(calls: AwsCalls, resource: Resource, scope: Scope) -> AwsEvidence:
    """Facts of one machine: its state, and the checks that it fails."""
    aws_evidence = AwsEvidence()
    query = f"DescribeInstanceStatus {resource.place} {resource.name}"
    try:
        answer = await calls.call(
            resource.place,
            "ec2",
            "DescribeInstanceStatus",
            InstanceIds=[resource.name],
            # Otherwise EC2 lists running instances alone.
            IncludeAllInstances=True,
        )
    except FaultlineError as error:
        aws_evidence.lacks("states", query, error)
        return aws_evidence
    rows: list[StateRow] = []
    for status in objects(answer.get("InstanceStatuses"))[:1]:
        rows += _of_instance(resource, status, query)
    aws_evidence.add("states", rows)
    link = resource_link(resource)
    aws_evidence.items.append(Item("states", query, full_window(scope), link, rows=len(rows)))
    return aws_evidence


def _of_instance(resource: Resource, status: Mapping[str, Any], query: str) -> Iterator[StateRow]:
    link = resource_link(resource)
    state = words(_inner(status, "InstanceState").get("Name"), 40)
    if state in GONE:
        yield resource_state(
            resource, "machine_lost", "InstanceState", state, query, expected="running", link=link
        )
    for check in _CHECKS:
        outcome = _inner(status, check)
        if outcome.get("Status") != "impaired":
            continue
        details = objects(outcome.get("Details"))[:1]
        since = moment(details[0].get("ImpairedSince")) if details else None
        yield resource_state(
            resource, "machine_impaired", check, f"{check} impaired", query, since=since, link=link
        )


def _inner(status: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = status.get(key)
    return inner if isinstance(inner, Mapping) else {}
