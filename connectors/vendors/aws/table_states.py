"""What DynamoDB says of a table: whether it can be reached, and when its capacity was changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Scope
from faultline.connectors.shared.contract.base import Item
from faultline.connectors.shared.rows.collection_builder import ChangeRow, full_window
from faultline.connectors.vendors.aws.calls import AwsCalls
from faultline.connectors.vendors.aws.console import resource_link
from faultline.connectors.vendors.aws.evidence import (
    AwsEvidence,
    changes_window,
    moment,
    within,
    words,
)
from faultline.connectors.vendors.aws.resource import Resource
from faultline.connectors.vendors.aws.resource_states import resource_state

UNREACHABLE = frozenset(
    {"INACCESSIBLE_ENCRYPTION_CREDENTIALS", "ARCHIVING", "ARCHIVED", "DELETING"}
)
"""Of TableStatus (DynamoDB API reference, TableDescription): nobody can read or write."""
_CHANGED = {"LastIncreaseDateTime": "raised", "LastDecreaseDateTime": "lowered"}


async def table_states(calls: AwsCalls, resource: Resource, scope: Scope) -> AwsEvidence:
    """Its status as a fact, its last changes of provisioned capacity as changes."""
    aws_evidence = AwsEvidence()
    query = f"DescribeTable {resource.place} {resource.name}"
    try:
        answer = await calls.call(
            resource.place, "dynamodb", "DescribeTable", TableName=resource.name
        )
    except FaultlineError as error:
        aws_evidence.lacks("states", query, error)
        return aws_evidence
    table = answer.get("Table")
    if not isinstance(table, Mapping):
        aws_evidence.lacks("states", query, "unexpected response: no table")
        return aws_evidence
    link = resource_link(resource)
    status = words(table.get("TableStatus"), 60)
    states = []
    if status in UNREACHABLE:
        row = resource_state(
            resource, "database_unavailable", "TableStatus", status, query, link=link
        )
        states.append(row._replace(expected="ACTIVE"))
    aws_evidence.add("states", states)
    aws_evidence.items.append(Item("states", query, full_window(scope), link, rows=len(states)))
    changes = _capacity_changes(resource, table.get("ProvisionedThroughput"), scope)
    if aws_evidence.add("changes", changes):
        item = Item("changes", query, changes_window(scope), link, rows=len(changes))
        aws_evidence.items.append(item.holding(changes))
    return aws_evidence


def _capacity_changes(resource: Resource, capacity: Any, scope: Scope) -> list[ChangeRow]:
    if not isinstance(capacity, Mapping):
        return []
    reads, writes = (
        words(capacity.get(f"{direction}CapacityUnits"), 20) for direction in ("Read", "Write")
    )
    rows = []
    # DynamoDB keeps the last raise and the last cut, no history.
    for key, how in _CHANGED.items():
        at = moment(capacity.get(key))
        if at is None or not within(at, changes_window(scope)):
            continue
        title = f"DynamoDB capacity of {resource.name} {how} (now {reads} read, {writes} write)"
        identity = f"{resource.name}:{key}:{at.isoformat()}"
        link = resource_link(resource)
        rows.append(ChangeRow(at, resource.service, "scale", identity, title, link=link))
    return rows
