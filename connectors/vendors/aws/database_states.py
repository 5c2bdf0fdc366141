"""What is wrong with a database instance by its own status, and by RDS's events of it and of its
cluster.

Statuses are those of "Viewing Amazon RDS DB instance status", messages those of "Amazon RDS event
categories and event messages" (Amazon RDS user guide).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Scope
from faultline.connectors.shared.contract.base import Item
from faultline.connectors.shared.rows.collection_builder import StateRow, full_window
from faultline.connectors.vendors.aws.calls import AwsCalls, objects
from faultline.connectors.vendors.aws.console import database_link, resource_link
from faultline.connectors.vendors.aws.evidence import AwsEvidence, cut_note, moment, within, words
from faultline.connectors.vendors.aws.resource import Resource, ResourceKind
from faultline.connectors.vendors.aws.resource_states import resource_state

MOST_EVENTS = 300
LONGEST_BACK = timedelta(days=14)
"""RDS keeps events that long (RDS API reference, DescribeEvents)."""
FactPatterns = tuple[tuple[str, re.Pattern[str]], ...]


@dataclass(frozen=True)
class EventSource:
    """Who reports a resource: service, type of source, name for humans."""

    service: str
    type: str
    name: str


EVENT_SOURCES: Mapping[ResourceKind, EventSource] = {
    "database": EventSource("rds", "db-instance", "RDS"),
    "db_cluster": EventSource("rds", "db-cluster", "RDS"),
    "cache": EventSource("elasticache", "cache-cluster", "ElastiCache"),
}
OF_STATUS: FactPatterns = (
    ("database_storage_full", re.compile(r"storage-full|storage-low")),
    ("database_restarted", re.compile(r"rebooting(?:-cluster-nodes)?|starting")),
    ("database_access_changed", re.compile(r"resetting-master-credentials")),
    ("database_in_maintenance", re.compile(r"maintenance|upgrading|storage-config-upgrade")),
    (
        "database_unavailable",
        re.compile(
            r"stopped|stopping|failed|deleting|deleted|restore-failed|inaccessible-encryption-credentials\S{0,20}"
            r"|incompatible-\S{1,30}|insufficient-capacity|\S{0,10}restore-error"
        ),
    ),
)
"""A status that none of these matches serves requests, or is of an instance that is new."""
OF_MESSAGE: FactPatterns = (
    (
        "database_storage_full",
        re.compile(
            r"(?i)allocated storage (?:for the DB instance )?has been (?:exhausted|consumed)"
            r"|free storage capacity .{1,120} is low|storage is dangerously low"
            r"|unable to scale the storage"
        ),
    ),
    (
        "database_failed_over",
        re.compile(
            r"(?i)failover (?:started|completed|to standby complete)|(?:started|completed) "
            r"(?:same az |cross.az )?failover|instance activation (?:started|completed)"
            r"|promoting previous primary"
        ),
    ),
    (
        "database_access_changed",
        re.compile(r"(?i)reset master credentials|security group|master user password"),
    ),
    (
        "database_unavailable",
        re.compile(
            r"(?i)DB (?:instance|cluster) (?:is )?(?:shutdown|stopped|deleted|being stopped)"
            r"|instance (?:put into|in) (?:the )?\S{0,4}(?:incompatible|failed|inaccessible)"
            r"|unable to access the KMS"
        ),
    ),
    (
        "database_restarted",
        re.compile(r"(?i)DB instance restarted|recovery of the (?:DB )?instance"),
    ),
    (
        "database_in_maintenance",
        re.compile(
            r"(?i)applying off-?line patches|downtime started|version upgrade started"
            r"|upgrade is in progress|replace the host"
        ),
    ),
    (
        "database_lagging",
        re.compile(
            r"(?i)replication (?:on .{1,80} )?(?:has )?(?:stopped|was terminated|is stopped)"
            r"|(?:read )?replica(?:tion)? .{0,40}(?:error|failed|terminated)"
        ),
    ),
)
OF_CACHE_MESSAGE: FactPatterns = (
    ("database_failed_over", re.compile(r"(?i)failover .{0,200}complete|failover complete")),
    ("database_unavailable", re.compile(r"(?i)cache cluster deleted|failed to (?:start|recover)")),
    (
        "database_restarted",
        re.compile(r"(?i)cache node .{0,80}(?:restarted|recovering|reboot|replac)"),
    ),
)
"""Messages of "Event notifications and Amazon SNS" and of DescribeEvents (ElastiCache user
guide)."""
PENDING = "pending-reboot"
"""Of a parameter group whose values wait for a restart (RDS API reference,
DBParameterGroupStatus)."""


async def database_states(calls: AwsCalls, resource: Resource, scope: Scope) -> AwsEvidence:
    """Facts of one instance. Its status has no time: the events say since when."""
    aws_evidence = AwsEvidence()
    query = f"DescribeDBInstances {resource.place} {resource.name}"
    cluster = ""
    try:
        answer = await calls.call(
            resource.place, "rds", "DescribeDBInstances", DBInstanceIdentifier=resource.name
        )
    except FaultlineError as error:
        aws_evidence.lacks("states", query, error)
    else:
        rows: list[StateRow] = []
        # An identifier means one instance at most.
        for instance in objects(answer.get("DBInstances"))[:1]:
            rows += _of_instance(resource, instance, query)
            cluster = words(instance.get("DBClusterIdentifier"), 80)
        aws_evidence.add("states", rows)
        link = database_link(resource.place.region, resource.name)
        window = full_window(scope)
        aws_evidence.items.append(Item("states", query, window, link, rows=len(rows)))
    if cluster:
        await _cluster_events(calls, resource, cluster, scope, aws_evidence)
    return aws_evidence


async def _cluster_events(
    calls: AwsCalls, resource: Resource, cluster: str, scope: Scope, aws_evidence: AwsEvidence
) -> None:
    """Aurora tells of failovers as events of the cluster."""
    window = full_window(scope)
    query = f"DescribeEvents {resource.place} db-cluster {cluster}"
    try:
        page = await calls.pages(
            resource.place,
            "rds",
            "DescribeEvents",
            "Events",
            most=MOST_EVENTS,
            SourceIdentifier=cluster,
            SourceType="db-cluster",
            # RDS has no older events.
            StartTime=max(window.start, window.end - LONGEST_BACK),
            EndTime=window.end,
        )
    except FaultlineError as error:
        aws_evidence.lacks("states", query, error)
        return
    rows = event_states(resource, objects(page.entries), scope, query)
    count = aws_evidence.add("states", rows)
    cut = cut_note(len(page.entries), more=page.more, what="events")
    link = database_link(resource.place.region, resource.name)
    aws_evidence.items.append(Item("states", query, window, link, rows=count, cut=cut))


async def cluster_states(calls: AwsCalls, resource: Resource, scope: Scope) -> AwsEvidence:
    """Facts of an Aurora cluster by its status; its events bring the others."""
    answered = _Answered("rds", "DescribeDBClusters", "DBClusters", "Status")
    return await _by_status(calls, resource, scope, answered, DBClusterIdentifier=resource.name)


async def cache_states(calls: AwsCalls, resource: Resource, scope: Scope) -> AwsEvidence:
    """Facts of a cache by its status; its events bring the others."""
    answered = _Answered(
        "elasticache", "DescribeCacheClusters", "CacheClusters", "CacheClusterStatus"
    )
    return await _by_status(calls, resource, scope, answered, CacheClusterId=resource.name)


@dataclass(frozen=True)
class _Answered:
    """An operation, and where its answer has the status of a resource."""

    service: str
    operation: str
    key: str
    field: str


async def _by_status(
    calls: AwsCalls, resource: Resource, scope: Scope, answered: _Answered, **params: str
) -> AwsEvidence:
    aws_evidence = AwsEvidence()
    query = f"{answered.operation} {resource.place} {resource.name}"
    try:
        answer = await calls.call(resource.place, answered.service, answered.operation, **params)
    except FaultlineError as error:
        aws_evidence.lacks("states", query, error)
        return aws_evidence
    rows = []
    for record in objects(answer.get(answered.key))[:1]:
        status = words(record.get(answered.field), 60)
        for fact, pattern in OF_STATUS:
            # ElastiCache writes some statuses with spaces.
            if pattern.fullmatch(status.replace(" ", "-")):
                field = answered.field
                rows.append(_row(resource, fact, field, status, query, expected="available"))
    aws_evidence.add("states", rows)
    window = full_window(scope)
    aws_evidence.items.append(Item("states", query, window, event_link(resource), rows=len(rows)))
    return aws_evidence


def _of_instance(resource: Resource, instance: Mapping[str, Any], query: str) -> Iterator[StateRow]:
    status = words(instance.get("DBInstanceStatus"), 60)
    for fact, pattern in OF_STATUS:
        if pattern.fullmatch(status):
            yield _row(resource, fact, "DBInstanceStatus", status, query, expected="available")
    for group in objects(instance.get("DBParameterGroups")):
        if group.get("ParameterApplyStatus") == PENDING:
            name = words(group.get("DBParameterGroupName"), 80)
            value = f"parameter group {name} waits for a restart"
            yield _row(resource, "database_parameters_pending", "DBParameterGroups", value, query)
    for info in objects(instance.get("StatusInfos")):
        # RDS fills StatusInfos for read replicas alone.
        if info.get("Normal") is False:
            texts = [words(info.get(key), 120) for key in ("Status", "Message")]
            value = ": ".join(part for part in texts if part)
            yield _row(resource, "database_lagging", "StatusInfos", value, query)


def event_states(
    resource: Resource, events: Iterable[Mapping[str, Any]], scope: Scope, query: str
) -> list[StateRow]:
    """Facts that events tell of, in their order."""
    window = full_window(scope)
    rows = []
    for event in events:
        at = moment(event.get("Date"))
        message = words(event.get("Message"), 300)
        # ElastiCache words its events differently.
        fact = _fact_of(message, OF_CACHE_MESSAGE if resource.kind == "cache" else OF_MESSAGE)
        if fact is not None and within(at, window):
            rows.append(_row(resource, fact, "events", message, query)._replace(since=at))
    return rows


def _fact_of(message: str, patterns: FactPatterns) -> str | None:
    for fact, pattern in patterns:
        if pattern.search(message):
            return fact
    return None


def _row(
    resource: Resource,
    fact: str,
    field: str,
    value: str,
    query: str,
    *,
    expected: str | None = None,
) -> StateRow:
    return resource_state(
        resource, fact, field, value, query, expected=expected, link=event_link(resource)
    )


def event_link(resource: Resource) -> str:
    """Where the console shows events of a database or cache."""
    if resource.kind == "database":
        return database_link(resource.place.region, resource.name)
    return resource_link(resource)
