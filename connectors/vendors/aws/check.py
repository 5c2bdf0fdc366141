"""`faultline check` for AWS: who the credentials are, and which reads they may do, each tried with
a cheap call."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.connectors.shared.contract.base import Check
from faultline.connectors.shared.rows.readable_parts import ReadableParts
from faultline.connectors.vendors.aws.calls import AwsCalls
from faultline.connectors.vendors.aws.evidence import words
from faultline.connectors.vendors.aws.resource import Resource, ResourceKind
from faultline.connectors.vendors.aws.resource_kinds import BY_KIND
from faultline.connectors.vendors.aws.scope import NOT_THERE
from faultline.connectors.vendors.aws.session import AwsPlace

_POWERFUL = re.compile(r"(?i)admin|poweruser|:root$")
"""Names of roles and users that may write nearly everything, as AWS's own managed roles are
called."""


PROBES: Mapping[ResourceKind, tuple[str, str, str]] = {
    "queue": ("sqs", "GetQueueUrl", "QueueName"),
    "table": ("dynamodb", "DescribeTable", "TableName"),
    "cache": ("elasticache", "DescribeCacheClusters", "CacheClusterId"),
    "scaling_group": ("autoscaling", "DescribeScalingActivities", "AutoScalingGroupName"),
    "state_machine": ("stepfunctions", "ListExecutions", "stateMachineArn"),
    "db_cluster": ("rds", "DescribeDBClusters", "DBClusterIdentifier"),
    "eks": ("eks", "DescribeCluster", "name"),
}
"""Of resources that the catalogue names: a cheap call, and its parameter that takes their name."""


async def check_place(calls: AwsCalls, place: AwsPlace, resources: Sequence[Resource]) -> Check:
    """What can be read in one place, of these resources among others."""
    try:
        identity = await calls.call(place, "sts", "GetCallerIdentity")
    except FaultlineError as error:
        return Check(str(place), False, f"{place}: {error}")
    now = datetime.now(UTC)
    since = now - timedelta(minutes=5)
    metric = {
        "Metric": {"Namespace": "AWS/Logs", "MetricName": "IncomingBytes"},
        "Period": 60,
        "Stat": "Sum",
    }
    tried: dict[str, tuple[str, str, dict[str, Any]]] = {
        "metrics": (
            "cloudwatch",
            "GetMetricData",
            {
                "MetricDataQueries": [{"Id": "m1", "MetricStat": metric}],
                "StartTime": since,
                "EndTime": now,
            },
        ),
        "alarms": ("cloudwatch", "DescribeAlarms", {"MaxRecords": 1}),
        "logs": ("logs", "DescribeLogGroups", {"limit": 1}),
        "traces": ("xray", "GetServiceGraph", {"StartTime": since, "EndTime": now}),
        "changes": ("cloudtrail", "LookupEvents", {"MaxResults": 1}),
    }
    # A call for each kind, of the first of its resources.
    probes: dict[str, tuple[str, str, dict[str, Any]]] = {}
    for resource in resources:
        probe = PROBES.get(resource.kind)
        if probe is not None:
            service, operation, parameter = probe
            part = BY_KIND[resource.kind].setting
            probes.setdefault(part, (service, operation, {parameter: resource.name}))
    tried |= probes
    refusals = await asyncio.gather(*(_refusal(calls, place, *call) for call in tried.values()))
    parts = ReadableParts(dict(zip(tried, refusals, strict=True)))
    who = f"{place} (account {words(identity.get('Account'), 20)})"
    line = f"{who}: {parts.words}; {_writing(place, identity)}"
    unread = tuple(f"{place}: {phrase}" for phrase in parts.unread)
    return Check(str(place), "metrics" in parts.readable, line, unread)


async def _refusal(
    calls: AwsCalls, place: AwsPlace, service: str, operation: str, params: dict[str, Any]
) -> str | None:
    try:
        await calls.call(place, service, operation, **params)
    except ConnectorError as error:
        # A resource may be in another place: that it is not here could be read.
        return None if NOT_THERE.search(error.problem) else error.problem
    except FaultlineError as error:
        return str(error)
    return None


def _writing(place: AwsPlace, identity: Mapping[str, Any]) -> str:
    if place.account.role_arn:
        return "the assumed session is limited to reading"
    arn = words(identity.get("Arn"), 300)
    if _POWERFUL.search(arn):
        return (
            f"warning: {arn} can also write: give the bot a role with "
            "the policy of docs/connectors/aws.md"
        )
    return (
        "what else these credentials may do cannot be seen: give "
        "them the policy of docs/connectors/aws.md"
    )
