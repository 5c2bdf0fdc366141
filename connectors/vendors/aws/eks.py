"""EKS: health of a cluster and its node groups as facts, their updates as changes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import ChangeKind, Scope
from faultline.connectors.shared.contract.base import Item
from faultline.connectors.shared.rows.collection_builder import (
    ChangeRow,
    StateRow,
    full_window,
    readable,
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
from faultline.connectors.vendors.aws.resource import Resource
from faultline.connectors.vendors.aws.resource_states import resource_state

MOST_GROUPS = 10
MOST_UPDATES = 10
"""Of the cluster, and of each node group; one call each."""
MOST_ISSUES = 20
BROKEN = frozenset({"FAILED", "DEGRADED", "CREATE_FAILED", "DELETE_FAILED", "DELETING"})
"""Statuses of a cluster or node group (EKS API reference, Cluster and Nodegroup)."""
_KINDS: Mapping[str, ChangeKind] = {"VersionUpdate": "deploy", "AddonUpdate": "deploy"}
"""Types of updates; the others are configuration."""


async def eks_health(calls: AwsCalls, resource: Resource, scope: Scope) -> AwsEvidence:
    """What is wrong with a cluster and its node groups, and how both were updated."""
    aws_evidence = AwsEvidence()
    # No group means the cluster itself.
    await _described(calls, resource, "", scope, aws_evidence)
    query = f"ListNodegroups {resource.place} {resource.name}"
    groups: list[str] = []
    try:
        page = await calls.pages(
            resource.place,
            "eks",
            "ListNodegroups",
            "nodegroups",
            most=MOST_GROUPS,
            clusterName=resource.name,
        )
    except FaultlineError as error:
        aws_evidence.lacks("states", query, error)
    else:
        groups = [entry for entry in page.entries if isinstance(entry, str)]
        if page.more:
            aws_evidence.lacks("states", query, f"only {MOST_GROUPS} node groups were looked at")
    await asyncio.gather(
        *(_described(calls, resource, group, scope, aws_evidence) for group in groups)
    )
    await asyncio.gather(
        *(_updates(calls, resource, group, scope, aws_evidence) for group in ("", *groups))
    )
    return aws_evidence


async def _described(
    calls: AwsCalls, resource: Resource, group: str, scope: Scope, aws_evidence: AwsEvidence
) -> None:
    """Facts of a node group, or of the cluster itself."""
    operation = "DescribeNodegroup" if group else "DescribeCluster"
    query = f"{operation} {resource.place} {_name(resource, group)}"
    try:
        if group:
            answer = await calls.call(
                resource.place,
                "eks",
                "DescribeNodegroup",
                clusterName=resource.name,
                nodegroupName=group,
            )
        else:
            answer = await calls.call(resource.place, "eks", "DescribeCluster", name=resource.name)
    except FaultlineError as error:
        aws_evidence.lacks("states", query, error)
        return
    described = answer.get("nodegroup" if group else "cluster")
    rows: list[StateRow] = []
    if isinstance(described, Mapping):
        rows = _states(resource, group, described, query)
    aws_evidence.add("states", rows)
    link = resource_link(resource)
    aws_evidence.items.append(Item("states", query, full_window(scope), link, rows=len(rows)))


def _states(
    resource: Resource, group: str, described: Mapping[str, Any], query: str
) -> list[StateRow]:
    values = []
    health = described.get("health")
    issues = health.get("issues") if isinstance(health, Mapping) else None
    for issue in objects(issues)[:MOST_ISSUES]:
        values.append(f"{words(issue.get('code'), 60)}: {words(issue.get('message'), 300)}")
    status = words(described.get("status"), 40)
    # Issues say what is wrong; the status stands in where there are none.
    if not values and status in BROKEN:
        values.append(f"status {status}")
    part = ("Node group", _name(resource, group)) if group else None
    rows = []
    for value in values:
        row = resource_state(resource, "node_group_degraded", "health", value, query, part=part)
        rows.append(row._replace(link=resource_link(resource)))
    return rows


async def _updates(
    calls: AwsCalls, resource: Resource, group: str, scope: Scope, aws_evidence: AwsEvidence
) -> None:
    whose: dict[str, Any] = {"name": resource.name, "nodegroupName": group or None}
    query = f"ListUpdates {resource.place} {_name(resource, group)}"
    try:
        page = await calls.pages(
            resource.place, "eks", "ListUpdates", "updateIds", most=MOST_UPDATES, **whose
        )
        ids = [entry for entry in page.entries if isinstance(entry, str)]
        # ListUpdates gives ids alone.
        answers = await asyncio.gather(
            *(
                calls.call(resource.place, "eks", "DescribeUpdate", **whose, updateId=update_id)
                for update_id in ids
            )
        )
    except FaultlineError as error:
        aws_evidence.lacks("changes", query, error)
        return
    rows = readable(
        _change(resource, group, update, scope)
        for update in objects([answer.get("update") for answer in answers])
    )
    aws_evidence.add("changes", rows)
    cut = cut_note(len(page.entries), more=page.more, what="updates")
    window = changes_window(scope)
    item = Item("changes", query, window, resource_link(resource), rows=len(rows), cut=cut)
    aws_evidence.items.append(item.holding(rows))


def _change(
    resource: Resource, group: str, update: Mapping[str, Any], scope: Scope
) -> ChangeRow | None:
    at = moment(update.get("createdAt"))
    if at is None or not within(at, changes_window(scope)):
        return None
    kind = words(update.get("type"), 60)
    status = words(update.get("status"), 40)
    title = f"EKS {kind} of {_name(resource, group)} ({status})"
    for error in objects(update.get("errors"))[:1]:
        title += f": {words(error.get('errorMessage'), 200)}"
    identity = words(update.get("id"), 80)
    link = resource_link(resource)
    changed = _KINDS.get(kind, "config")
    return ChangeRow(at, resource.service, changed, identity, title, link=link)


def _name(resource: Resource, group: str) -> str:
    return f"{resource.name}/{group}" if group else resource.name
