"""The CloudWatch metrics of each kind of resource, and the signals that they become.

Names, units and dimensions are those of each service's page "CloudWatch metrics" in its user guide.
What a database or a queue says of itself gets its own names, for it may belong to a service that
has a CPU as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from faultline.connectors.vendors.aws.resource import Resource, ResourceKind
from faultline.connectors.vendors.aws.resource_kinds import BY_KIND


@dataclass(frozen=True)
class AwsMetricTemplate:
    """A signal. With `over` it is the share of `metric` in that other metric, with `rate` it is per
    second; with both, the share of a rate."""

    kind: ResourceKind
    signal: str
    unit: str
    metric: str
    stat: str
    scale: float = 1.0
    rate: bool = False
    over: str | None = None
    over_stat: str | None = None
    """The statistic of that other metric, where it is not the same."""
    namespace: str | None = None


INSIGHTS = "ECS/ContainerInsights"
SCALING = "AWS/AutoScaling"
TEMPLATES = (
    AwsMetricTemplate("target_group", "request_rate", "1/s", "RequestCount", "Sum", rate=True),
    AwsMetricTemplate(
        "target_group",
        "error_ratio",
        "ratio",
        "HTTPCode_Target_5XX_Count",
        "Sum",
        over="RequestCount",
    ),
    # Load balancers measure in seconds.
    AwsMetricTemplate("target_group", "latency_p50", "ms", "TargetResponseTime", "p50", 1000),
    AwsMetricTemplate("target_group", "latency_p99", "ms", "TargetResponseTime", "p99", 1000),
    AwsMetricTemplate("target_group", "unhealthy_hosts", "count", "UnHealthyHostCount", "Maximum"),
    AwsMetricTemplate(
        "target_group", "connection_errors", "count", "TargetConnectionErrorCount", "Sum"
    ),
    AwsMetricTemplate("api", "request_rate", "1/s", "Count", "Sum", rate=True),
    AwsMetricTemplate("api", "error_ratio", "ratio", "5XXError", "Sum", over="Count"),
    AwsMetricTemplate("api", "latency_p50", "ms", "Latency", "p50"),
    AwsMetricTemplate("api", "latency_p99", "ms", "Latency", "p99"),
    AwsMetricTemplate("lambda", "request_rate", "1/s", "Invocations", "Sum", rate=True),
    AwsMetricTemplate("lambda", "error_ratio", "ratio", "Errors", "Sum", over="Invocations"),
    AwsMetricTemplate("lambda", "latency_p50", "ms", "Duration", "p50"),
    AwsMetricTemplate("lambda", "latency_p99", "ms", "Duration", "p99"),
    AwsMetricTemplate("lambda", "rejected_invocations", "count", "Throttles", "Sum"),
    AwsMetricTemplate("lambda", "inflight_invocations", "count", "ConcurrentExecutions", "Maximum"),
    AwsMetricTemplate("ecs", "cpu_utilization", "percent", "CPUUtilization", "Average"),
    AwsMetricTemplate("ecs", "memory_utilization", "percent", "MemoryUtilization", "Maximum"),
    AwsMetricTemplate(
        "ecs", "ready_tasks", "count", "RunningTaskCount", "Minimum", namespace=INSIGHTS
    ),
    AwsMetricTemplate(
        "database", "database_cpu_utilization", "percent", "CPUUtilization", "Average"
    ),
    AwsMetricTemplate(
        "database", "database_memory_free_bytes", "bytes", "FreeableMemory", "Minimum"
    ),
    AwsMetricTemplate(
        "database", "database_connections", "count", "DatabaseConnections", "Maximum"
    ),
    AwsMetricTemplate("database", "database_read_latency", "ms", "ReadLatency", "Average", 1000),
    AwsMetricTemplate("database", "database_write_latency", "ms", "WriteLatency", "Average", 1000),
    AwsMetricTemplate(
        "database", "database_disk_queue_depth", "count", "DiskQueueDepth", "Average"
    ),
    AwsMetricTemplate(
        "database", "database_disk_free_bytes", "bytes", "FreeStorageSpace", "Minimum"
    ),
    AwsMetricTemplate("database", "database_replica_lag", "s", "ReplicaLag", "Maximum"),
    AwsMetricTemplate(
        "queue", "queue_oldest_message_age", "s", "ApproximateAgeOfOldestMessage", "Maximum"
    ),
    AwsMetricTemplate(
        "queue", "queue_depth", "count", "ApproximateNumberOfMessagesVisible", "Maximum"
    ),
    AwsMetricTemplate(
        "queue", "messages_sent_per_second", "1/s", "NumberOfMessagesSent", "Sum", rate=True
    ),
    AwsMetricTemplate(
        "queue", "messages_deleted_per_second", "1/s", "NumberOfMessagesDeleted", "Sum", rate=True
    ),
    AwsMetricTemplate(
        "dead_letter_queue",
        "dead_letter_queue_depth",
        "count",
        "ApproximateNumberOfMessagesVisible",
        "Maximum",
    ),
    AwsMetricTemplate("table", "table_rejected_reads", "count", "ReadThrottleEvents", "Sum"),
    AwsMetricTemplate("table", "table_rejected_writes", "count", "WriteThrottleEvents", "Sum"),
    # Consumed units are summed over the period, provisioned ones hold for each second.
    AwsMetricTemplate(
        "table",
        "table_read_saturation",
        "ratio",
        "ConsumedReadCapacityUnits",
        "Sum",
        rate=True,
        over="ProvisionedReadCapacityUnits",
        over_stat="Maximum",
    ),
    AwsMetricTemplate(
        "table",
        "table_write_saturation",
        "ratio",
        "ConsumedWriteCapacityUnits",
        "Sum",
        rate=True,
        over="ProvisionedWriteCapacityUnits",
        over_stat="Maximum",
    ),
    AwsMetricTemplate("cache", "cache_memory_removals", "count", "Evictions", "Sum"),
    AwsMetricTemplate("cache", "cache_cpu_utilization", "percent", "CPUUtilization", "Maximum"),
    AwsMetricTemplate(
        "cache", "cache_engine_cpu_utilization", "percent", "EngineCPUUtilization", "Maximum"
    ),
    AwsMetricTemplate(
        "cache", "cache_memory_utilization", "percent", "DatabaseMemoryUsagePercentage", "Maximum"
    ),
    AwsMetricTemplate("cache", "cache_connections", "count", "CurrConnections", "Maximum"),
    AwsMetricTemplate("cache", "cache_replication_lag", "s", "ReplicationLag", "Maximum"),
    AwsMetricTemplate("scaling_group", "cpu_utilization", "percent", "CPUUtilization", "Average"),
    AwsMetricTemplate(
        "scaling_group", "failed_status_checks", "count", "StatusCheckFailed", "Maximum"
    ),
    AwsMetricTemplate(
        "scaling_group",
        "ready_instances",
        "count",
        "GroupInServiceInstances",
        "Minimum",
        namespace=SCALING,
    ),
    AwsMetricTemplate("instance", "cpu_utilization", "percent", "CPUUtilization", "Average"),
    AwsMetricTemplate("instance", "failed_status_checks", "count", "StatusCheckFailed", "Maximum"),
    AwsMetricTemplate("instance", "cpu_credits_remaining", "count", "CPUCreditBalance", "Minimum"),
    # The age comes in milliseconds, the lag is in seconds.
    AwsMetricTemplate(
        "stream",
        "stream_iterator_lag",
        "s",
        "GetRecords.IteratorAgeMilliseconds",
        "Maximum",
        0.001,
    ),
    AwsMetricTemplate(
        "stream", "stream_rejected_writes", "count", "WriteProvisionedThroughputExceeded", "Sum"
    ),
    AwsMetricTemplate(
        "stream", "stream_rejected_reads", "count", "ReadProvisionedThroughputExceeded", "Sum"
    ),
    AwsMetricTemplate("state_machine", "failed_executions", "count", "ExecutionsFailed", "Sum"),
    AwsMetricTemplate("state_machine", "executions_timeout", "count", "ExecutionsTimedOut", "Sum"),
    AwsMetricTemplate("state_machine", "rejected_executions", "count", "ExecutionThrottled", "Sum"),
    AwsMetricTemplate(
        "state_machine", "executions_per_second", "1/s", "ExecutionsStarted", "Sum", rate=True
    ),
    AwsMetricTemplate(
        "nat_gateway", "port_allocation_errors", "count", "ErrorPortAllocation", "Sum"
    ),
    AwsMetricTemplate("nat_gateway", "dropped_packets", "count", "PacketsDropCount", "Sum"),
    AwsMetricTemplate(
        "nat_gateway", "nat_connections", "count", "ActiveConnectionCount", "Maximum"
    ),
    AwsMetricTemplate(
        "db_cluster", "database_cpu_utilization", "percent", "CPUUtilization", "Maximum"
    ),
    AwsMetricTemplate(
        "db_cluster", "database_connections", "count", "DatabaseConnections", "Maximum"
    ),
    AwsMetricTemplate(
        "db_cluster", "database_replica_lag", "s", "AuroraReplicaLag", "Maximum", 0.001
    ),
)
"""In order of preference: of two kinds of resource that have a signal, a service's signal is that
of the first."""
HTTP_API_METRICS = {"5XXError": "5xx"}
"""HTTP APIs have the names in lower case (API Gateway guide, "Working with metrics for HTTP
APIs")."""
_HTTP_API_ID = re.compile(r"[a-z0-9]{10}")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_PLAIN_STATS = ("", "average", "sum")


def dimensions(resource: Resource, load_balancer: str | None = None) -> dict[str, str]:
    """The dimensions of a resource's metrics."""
    if resource.kind == "target_group" and load_balancer:
        return {"TargetGroup": resource.name, "LoadBalancer": load_balancer}
    if resource.kind == "api" and is_http_api(resource):
        return {"ApiId": resource.name}
    names = BY_KIND[resource.kind].dimensions
    # A name of several dimensions has them divided by a slash: `cluster/service`.
    values = resource.name.split("/", 1) if len(names) > 1 else [resource.name]
    return dict(zip(names, values, strict=True))


def is_http_api(resource: Resource) -> bool:
    """Whether an API is named by an id, as HTTP APIs are."""
    return bool(_HTTP_API_ID.fullmatch(resource.name))


def metric_name(resource: Resource, name: str) -> str:
    """A metric's name as this resource has it."""
    return (
        HTTP_API_METRICS.get(name, name)
        if resource.kind == "api" and is_http_api(resource)
        else name
    )


def signal_of(namespace: str, metric: str, stat: str) -> tuple[str, str | None, float]:
    """Signal, unit and scale of an alarm's metric: ours where there is one, else its own name in
    our style."""
    # A rate or a share is computed here, so it is not what an alarm compares.
    for template in TEMPLATES:
        template_namespace = template.namespace or BY_KIND[template.kind].namespace
        if (
            (template_namespace, template.metric, template.stat.lower())
            == (namespace, metric, stat.lower())
            and not template.rate
            and not template.over
        ):
            return template.signal, template.unit, template.scale
    words = _CAMEL.sub("_", metric).lower().replace(" ", "_")[:80]
    return (words if stat.lower() in _PLAIN_STATS else f"{words}_{stat.lower()}"), None, 1.0
