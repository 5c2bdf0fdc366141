"""Step Functions: why executions of a state machine failed or ran out of time, as log lines."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Scope
from faultline.connectors.shared.contract.base import Item
from faultline.connectors.shared.rows.collection_builder import LogRow, full_window
from faultline.connectors.vendors.aws.calls import AwsCalls, objects
from faultline.connectors.vendors.aws.console import resource_link
from faultline.connectors.vendors.aws.evidence import AwsEvidence, cut_note, moment, within, words
from faultline.connectors.vendors.aws.happenings import attributes
from faultline.connectors.vendors.aws.resource import Resource
from faultline.connectors.vendors.aws.resource_kinds import base_name

MOST_LISTED = 200
MOST_DESCRIBED = 10
"""Of one status; one call each, and executions of one state machine mostly fail alike."""
ENDED_BADLY = ("FAILED", "TIMED_OUT")


async def failed_executions(calls: AwsCalls, resource: Resource, scope: Scope) -> AwsEvidence:
    """A line for each execution that ended badly in the windows; the latest say why. What went in
    and out of an execution is not kept."""
    aws_evidence = AwsEvidence()
    await asyncio.gather(
        *(_ended(calls, resource, status, scope, aws_evidence) for status in ENDED_BADLY)
    )
    return aws_evidence


async def _ended(
    calls: AwsCalls, resource: Resource, status: str, scope: Scope, aws_evidence: AwsEvidence
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
        for execution in objects(page.entries):
            # ListExecutions filters by status, not by time.
            if within(moment(execution.get("stopDate")), window):
                ended.append(execution)
        latest = [_described(calls, resource, execution) for execution in ended[:MOST_DESCRIBED]]
        described = [*await asyncio.gather(*latest), *ended[MOST_DESCRIBED:]]
    except FaultlineError as error:
        aws_evidence.lacks("logs", query, error)
        return
    rows = []
    for execution in described:
        row = _line(resource, execution, status)
        if row is not None:
            rows.append(row)
    aws_evidence.add("logs", rows)
    cut = cut_note(len(page.entries), more=page.more, what="executions")
    item = Item("logs", query, window, resource_link(resource), rows=len(rows), cut=cut)
    aws_evidence.items.append(item.holding(rows))


async def _described(
    calls: AwsCalls, resource: Resource, execution: Mapping[str, Any]
) -> Mapping[str, Any]:
    arn = words(execution.get("executionArn"), 256)
    answer = await calls.call(
        resource.place, "stepfunctions", "DescribeExecution", executionArn=arn
    )
    # Keep the time by which the execution was found to be in the window.
    return {**answer, "stopDate": execution.get("stopDate")}


def _line(resource: Resource, execution: Mapping[str, Any], status: str) -> LogRow | None:
    at = moment(execution.get("stopDate"))
    if at is None:
        return None
    phrase = f"Step Functions {base_name(resource.name)} execution {status}"
    for key in ("error", "cause"):
        why = words(execution.get(key), 300)
        if why:
            phrase += f": {why}"
    return LogRow(at, resource.service, phrase, "error", None, attributes(resource))
