"""What one quantity is called, and in which unit, in different monitoring systems."""

from __future__ import annotations

from dataclasses import dataclass

from proving_ground.worlds.graph import UnitKind


@dataclass(frozen=True)
class MetricName:
    """A metric of one convention. The value is the quantity times `scale`; `form` says what is
    recorded of it: "value", "total" (a counter since the last restart), "count" (per interval),
    "rate" (per second) or "lacking" (100 less the value)."""

    signal: str
    unit: str | None = None
    scale: float = 1.0
    form: str = "value"


M = MetricName
CONVENTIONS: dict[str, dict[str, MetricName]] = {
    "micrometer": {
        "requests": M("http_server_requests_seconds_count", None, 1, "total"),
        "errors": M("http_server_requests_errors_total", None, 1, "total"),
        "latency_sum": M("http_server_requests_seconds_sum", "s", 1, "total"),
        "latency_max": M("http_server_requests_seconds_max", "s"),
        "cpu": M("process_cpu_usage"),
        "memory": M("jvm_memory_used_bytes", "bytes"),
        "threads": M("tomcat_threads_busy_threads", None, 200),
        "pool_used": M("hikaricp_connections_active", None, 40),
        "pool_waiting": M("hikaricp_connections_pending"),
        "queue_depth": M("kafka_consumergroup_lag"),
        "hit_ratio": M("cache_gets_hit_ratio"),
        "disk": M("disk_used_ratio"),
        "restarts": M("kube_pod_container_status_restarts_total", None, 1, "total"),
        "pause": M("jvm_gc_pause_seconds_max", "s"),
        "client_latency": M("http_client_requests_seconds_max", "s", 2.5),
        "client_errors": M("http_client_requests_errors_total", None, 1, "total"),
    },
    "prometheus_rules": {
        "requests": M("request_rate", "1/s", 1, "rate"),
        "error_ratio": M("error_ratio", "ratio"),
        "latency_p50": M("latency_p50", "s"),
        "latency_p95": M("latency_p95", "s"),
        "latency_p99": M("latency_p99", "s"),
        "cpu": M("cpu_usage", "ratio"),
        "memory": M("memory_working_set_bytes", "bytes"),
        "pool_used": M("db_pool_utilization", "ratio"),
        "queue_depth": M("queue_messages_ready"),
        "hit_ratio": M("cache_hit_ratio", "ratio"),
        "disk": M("disk_usage", "ratio"),
        "restarts": M("container_restarts_total", None, 1, "total"),
        "replicas": M("kube_deployment_status_replicas_available"),
        "client_latency": M("client_request_duration_seconds_mean", "s"),
        "client_errors": M("client_error_rate", "1/s", 1, "rate"),
    },
    "opentelemetry": {
        "requests": M("http.server.request.count", None, 1, "count"),
        "errors": M("http.server.request.error.count", None, 1, "count"),
        "latency_mean": M("http.server.request.duration", "s"),
        "latency_p95": M("http.server.request.duration.p95", "s"),
        "latency_p99": M("http.server.request.duration.p99", "s"),
        "cpu": M("process.cpu.utilization", "1"),
        "memory": M("process.memory.usage", "By"),
        "threads": M("http.server.active_requests", None, 100),
        "pool_used": M("db.client.connections.usage", None, 40),
        "pool_waiting": M("db.client.connections.pending_requests"),
        "queue_depth": M("messaging.queue.depth"),
        "hit_ratio": M("cache.hit.ratio", "1"),
        "disk": M("system.filesystem.utilization", "1"),
        "restarts": M("k8s.container.restarts", None, 1, "total"),
        "client_latency": M("http.client.request.duration", "s"),
        "client_errors": M("http.client.request.error.count", None, 1, "count"),
    },
    "cloudwatch": {
        "requests": M("RequestCount", "Count", 1, "count"),
        "errors": M("HTTPCode_Target_5XX_Count", "Count", 1, "count"),
        "latency_mean": M("TargetResponseTime", "Seconds"),
        "latency_p99": M("TargetResponseTime.p99", "Seconds"),
        "cpu": M("CPUUtilization", "Percent", 100),
        "memory_share": M("MemoryUtilization", "Percent", 100),
        "pool_used": M("DatabaseConnections", "Count", 40),
        "queue_depth": M("ApproximateNumberOfMessagesVisible", "Count"),
        "hit_ratio": M("CacheHitRate", "Percent", 100),
        "disk": M("DiskSpaceUtilization", "Percent", 100),
        "replicas": M("RunningTaskCount", "Count"),
    },
    "datadog": {
        "requests": M("trace.http.request.hits", None, 1, "count"),
        "errors": M("trace.http.request.errors", None, 1, "count"),
        "latency_mean": M("trace.http.request.duration.avg", "s"),
        "latency_p95": M("trace.http.request.duration.95p", "s"),
        "latency_p99": M("trace.http.request.duration.99p", "s"),
        "cpu": M("kubernetes.cpu.usage.total", "ncores", 1e9),
        "memory": M("kubernetes.memory.usage", "bytes"),
        "pool_used": M("postgresql.percent_usage_connections", None, 1),
        "queue_depth": M("rabbitmq.queue.messages.ready"),
        "hit_ratio": M("redis.stats.hit_ratio"),
        "disk": M("system.disk.in_use"),
        "restarts": M("kubernetes.containers.restarts", None, 1, "total"),
        "client_latency": M("trace.http.client.duration.95p", "s", 1.8),
        "client_errors": M("trace.http.client.errors", None, 1, "count"),
    },
    "plain": {
        "requests": M("requests", None, 1, "count"),
        "latency_mean": M("latency", "ms", 1000),
        "error_ratio": M("availability", "%", 100, "lacking"),
        "cpu": M("cpu", "%", 100),
        "memory": M("mem", "MB", 1e-6),
        "queue_depth": M("backlog"),
        "hit_ratio": M("hit_rate", "%", 100),
        "disk": M("disk_used_percent", "%", 100),
        "pool_used": M("connections", None, 40),
    },
    "short": {
        "requests": M("rps", "1/s", 1, "rate"),
        "error_ratio": M("err_rate", None, 1),
        "latency_p50": M("p50_ms", "ms", 1000),
        "latency_p95": M("p95_ms", "ms", 1000),
        "latency_p99": M("p99_ms", "ms", 1000),
        "cpu": M("cpu_pct", "%", 100),
        "memory": M("mem_mb", "MB", 1e-6),
        "threads": M("busy_workers", None, 64),
        "pool_used": M("db_conn_used", None, 40),
        "queue_depth": M("queue_len"),
        "hit_ratio": M("cache_hit", None),
        "restarts": M("restarts", None, 1, "total"),
    },
}

SERVED = ("requests", "errors", "error_ratio")
TIMED = (
    "latency_mean",
    "latency_p50",
    "latency_p95",
    "latency_p99",
    "latency_max",
    "latency_sum",
)
OF_KIND: dict[UnitKind, tuple[str, ...]] = {
    UnitKind.FRONT: (
        *SERVED,
        *TIMED,
        "cpu",
        "memory",
        "memory_share",
        "threads",
        "restarts",
        "replicas",
    ),
    UnitKind.SERVICE: (
        *SERVED,
        *TIMED,
        "cpu",
        "memory",
        "memory_share",
        "threads",
        "pool_used",
        "pool_waiting",
        "restarts",
        "replicas",
        "pause",
    ),
    UnitKind.WORKER: (
        *SERVED,
        "latency_mean",
        "latency_p95",
        "cpu",
        "memory",
        "memory_share",
        "restarts",
    ),
    UnitKind.QUEUE: ("requests", "queue_depth", "disk"),
    UnitKind.DATABASE: (
        "requests",
        "latency_mean",
        "cpu",
        "memory",
        "memory_share",
        "pool_used",
        "disk",
    ),
    UnitKind.CACHE: ("requests", "cpu", "memory", "memory_share", "hit_ratio"),
    UnitKind.EXTERNAL: (),
}
"""What is measured of each kind of unit."""
