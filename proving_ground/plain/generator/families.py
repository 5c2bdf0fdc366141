"""Request metrics under the names and labels that client libraries, OpenTelemetry, Micrometer,
gRPC, Istio and ingress-nginx give them; and the expressions of alert rules on them.

Sources: client_golang's examples, OpenTelemetry's semantic conventions for HTTP, RPC and database
metrics in their Prometheus form, Micrometer's HTTP and HikariCP binders, go-grpc-middleware,
Istio's standard metrics, ingress-nginx's page on monitoring.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from proving_ground.plain.generator.system import Service, System

Labels = dict[str, str]


@dataclass(frozen=True)
class Family:
    """Names of one kind of instrumentation. `service_label` is where a service's name is, besides
    its target's labels; empty where the target's are all."""

    counter: str
    histogram: str
    status: str
    ok: str
    failing: str
    """Pattern of failed requests in a rule."""
    counted_by_status: bool = True
    """Whether the histogram has the status too."""
    in_ms: bool = False
    has_counter: bool = True
    """Or the histogram's count is all."""
    extra: tuple[tuple[str, str], ...] = ()


SERVERS: Mapping[str, Family] = {
    "golang": Family(
        "http_requests_total", "http_request_duration_seconds", "code", "200", "5..",
        counted_by_status=False, extra=(("method", "GET"), ("handler", "/v1/items")),
    ),
    "otel": Family(
        "http_server_request_duration_seconds_count", "http_server_request_duration_seconds",
        "http_response_status_code", "200", "5..", has_counter=False,
        extra=(("http_request_method", "POST"),),
    ),
    "otel_rpc": Family(
        "rpc_server_duration_milliseconds_count", "rpc_server_duration_milliseconds",
        "rpc_grpc_status_code", "0", "2|4|13|14", in_ms=True, has_counter=False,
        extra=(("rpc_system", "grpc"), ("rpc_method", "Get")),
    ),
    "micrometer": Family(
        "http_server_requests_seconds_count", "http_server_requests_seconds", "status", "200",
        "5..", has_counter=False, extra=(("method", "GET"), ("uri", "/items/{id}")),
    ),
    "grpc": Family(
        "grpc_server_handled_total", "grpc_server_handling_seconds", "grpc_code", "OK",
        "Unknown|Internal|Unavailable|DeadlineExceeded", counted_by_status=False,
        extra=(("grpc_type", "unary"), ("grpc_method", "Get")),
    ),
    "istio": Family(
        "istio_requests_total", "istio_request_duration_milliseconds", "response_code", "200",
        "5..", in_ms=True,
    ),
}  # fmt: skip
CLIENTS: Mapping[str, Family] = {
    "http": Family(
        "", "http_client_request_duration_seconds", "http_response_status_code", "200", "",
        has_counter=False, extra=(("http_request_method", "GET"),),
    ),
    "micrometer": Family(
        "", "http_client_requests_seconds", "status", "200", "", has_counter=False,
        extra=(("method", "GET"), ("uri", "/items/{id}")),
    ),
    "grpc": Family(
        "grpc_client_handled_total", "grpc_client_handling_seconds", "grpc_code", "OK", "",
        counted_by_status=False, extra=(("grpc_method", "Get"), ("grpc_type", "unary")),
    ),
    "otel_rpc": Family(
        "", "rpc_client_duration_milliseconds", "rpc_grpc_status_code", "0", "", in_ms=True,
        has_counter=False, extra=(("rpc_system", "grpc"), ("rpc_method", "Get")),
    ),
    "database": Family(
        "", "db_client_operation_duration_seconds", "error_type", "", "", has_counter=False,
    ),
}  # fmt: skip
FAILED = {
    "otel_rpc": ("13", "14", "4"),
    "grpc": ("Internal", "Unavailable", "DeadlineExceeded"),
}
HTTP_FAILED = ("500", "503", "504")
"""Status of a request that failed by itself, by what it calls, and by a time-out."""


def client_family(caller: Service, callee: Service, namespace: str) -> tuple[Family, Labels]:
    """Names and labels of the metric by which a caller watches a callee."""
    is_outside = callee.role == "provider"
    host = callee.name if is_outside else f"{callee.name}.{namespace}.svc.cluster.local"
    speaks_grpc = not is_outside and callee.family in ("grpc", "otel_rpc")
    if callee.role in ("database", "cache"):
        kind = "postgresql" if callee.role == "database" else "redis"
        family, labels = CLIENTS["database"], {"db_system_name": kind, "server_address": host}
    elif caller.family == "micrometer":
        family, labels = CLIENTS["micrometer"], {"client_name": host}
    elif caller.family == "grpc" and speaks_grpc:
        family, labels = CLIENTS["grpc"], {"grpc_service": rpc_name(callee)}
    elif caller.family == "otel_rpc" and speaks_grpc:
        family = CLIENTS["otel_rpc"]
        labels = {"rpc_service": rpc_name(callee), "server_address": host}
    else:
        port = "443" if is_outside else "8080"
        family, labels = CLIENTS["http"], {"server_address": host, "server_port": port}
    return family, labels | dict(family.extra)


def client_failures(caller: Service, callee: Service) -> tuple[str, str]:
    """The statuses that a caller counts for a failed call and for one that timed out."""
    if callee.role in ("database", "cache"):
        return "connection_error", "timeout"
    is_rpc = callee.role != "provider" and callee.family in ("grpc", "otel_rpc")
    if caller.family in FAILED and is_rpc:
        return FAILED[caller.family][1], FAILED[caller.family][2]
    return "503", "504" if caller.family != "micrometer" else "CLIENT_ERROR"


def rpc_name(service: Service) -> str:
    """The service of a protocol file."""
    words = service.name.split("-")
    return f"acme.{words[0]}.v1.{words[0].capitalize()}Service"


def service_matchers(system: System, service: Service) -> tuple[str, str, str]:
    """The label that names a service in rules, its value, and matchers of its namespace."""
    if service.family == "istio":
        where = f'reporter="destination",destination_workload_namespace="{system.namespace}"'
        return "destination_workload", service.name, where
    if service.family in ("otel", "otel_rpc") and system.seed % 3 == 0:
        return "job", f"{system.namespace}/{service.name}", ""
    if system.label_style == "operator":
        return "service", service.name, f'namespace="{system.namespace}"'
    if system.label_style == "annotations":
        return "app", service.name, f'namespace="{system.namespace}"'
    return "job", service.name, 'env="prod"'


def request_expression(system: System, service: Service, signal: str, *, is_generic: bool) -> str:
    """PromQL of a service's share of errors, p95 or rate, without a threshold; `is_generic` rules
    watch all services, and the series says which one it is."""
    family = SERVERS[service.family]
    label, value, where = service_matchers(system, service)
    # A front door behind no proxy of the mesh has no reporter but ingress; rules are then its own.
    matchers = [part for part in (where, "" if is_generic else f'{label}="{value}"') if part]
    over = f"[{max(5, 4 * system.scrape_s // 60)}m]"
    by = (
        f"by ({label}, namespace)"
        if "namespace=" in where and label != "destination_workload"
        else f"by ({label})"
    )

    def rate(metric: str, *more: str) -> str:
        inside = ",".join([*matchers, *more])
        return f"rate({metric}{{{inside}}}{over})" if inside else f"rate({metric}{over})"

    if signal == "errors":
        failed = rate(family.counter, f'{family.status}=~"{family.failing}"')
        return f"sum {by} ({failed}) / sum {by} ({rate(family.counter)})"
    if signal == "latency":
        with_le = by.replace("by (", "by (le, ")
        text = f"histogram_quantile(0.95, sum {with_le} ({rate(family.histogram + '_bucket')}))"
        return f"{text} / 1000" if family.in_ms else text
    return f"sum {by} ({rate(family.counter)})"
