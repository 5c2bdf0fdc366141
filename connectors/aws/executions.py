"""Step Functions: why executions of a state machine failed or ran out of time, as log lines."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from analysis.errors import FaultlineError
from analysis.vocabulary import Scope
from connectors.aws.calls import AwsCalls, objects
from connectors.aws.console import resource_link
from connectors.aws.evidence import AwsEvidence, cut_note, moment, within, words
from connectors.aws.happenings import attributes
from connectors.aws.resource import Resource
from connectors.aws.resource_kinds import own_name
from connectors.base import Item
from connectors.collection_builder import full_window
from connectors.evidence_rows import LogRow

MOST_LISTED = 200
MOST_DESCRIBED = 10
"""Of one status; one call each, and executions of one state machine mostly fail alike."""
ENDED_BADLY = ("FAILED", "TIMED_OUT")


async def failed_executions(calls: AwsCalls, resource: Resource, scope: Scope) -> AwsEvidence:
    """A line for each execution that ended badly in the windows; the latest say why. What went in
    and out of an execution is not kept."""
    found = AwsEvidence()
    await asyncio.gather(*(_ended(calls, resource, one, scope, found) for one in ENDED_BADLY))
    return found


async def _ended(
    calls: AwsCalls, resource: Resource, status: str, scope: Scope, found: AwsEvidence
) -> None:
    query = f"ListExecutions {resource.place} {resource.name} statusFilter={status}"
    window = full_window(scope)
    try:
        page = await calls.pages(
            resource.place,
            "stepfunctions",
            "ListExecutions",
            "executions",
            most=MOST_LISTED,
            stateMachineArn=resource.name,
            statusFilter=status,
        )
        ended = []
        for one in objects(page.entries):
            if within(moment(one.get("stopDate")), window):
                ended.append(one)
        latest = [_described(calls, resource, one) for one in ended[:MOST_DESCRIBED]]
        described = [*await asyncio.gather(*latest), *ended[MOST_DESCRIBED:]]
    except FaultlineError as error:
        found.lacks("logs", query, error)
        return
    rows = []
    for one in described:
        row = _line(resource, one, status)
        if row is not None:
            rows.append(row)
    found.add("logs", rows)
    cut = cut_note(len(page.entries), more=page.more, what="executions")
    item = Item("logs", query, window, resource_link(resource), rows=len(rows), cut=cut)
    found.items.append(item.holding(rows))


async def _described(
    calls: AwsCalls, resource: Resource, execution: Mapping[str, Any]
) -> Mapping[str, Any]:
    arn = words(execution.get("executionArn"), 256)
    answer = await calls.call(
        resource.place, "stepfunctions", "DescribeExecution", executionArn=arn
    )
    return {**answer, "stopDate": execution.get("stopDate")}


def _line(resource: Resource, execution: Mapping[str, Any], status: str) -> LogRow | None:
    at = moment(execution.get("stopDate"))
    if at is None:
        return None
    said = f"Step Functions {own_name(resource.name)} execution {status}"
    for key in ("error", "cause"):
        why = words(execution.get(key), 300)
        if why:
            said += f": {why}"
    return LogRow(at, resource.service, said, "error", None, attributes(resource))
