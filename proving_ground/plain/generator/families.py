"""Request metrics under the names and labels that client libraries, OpenTelemetry, Micrometer,
gRPC, Istio and ingress-nginx give them; and the expressions of alert rules on them.

Sources: client_golang's examples, OpenTelemetry's semantic conventions for HTTP, RPC and database
metrics in their Prometheus form, Micrometer's HTTP and HikariCP binders, go-grpc-middleware,
Istio's standard metrics, ingress-nginx's page on monitoring.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from proving_ground.plain.generator.flow import (
    POOL,
    SIGMA,
    Floats,
    Flow,
    edge,
    median_of,
    normal_cdf,
)
from proving_ground.plain.generator.openmetrics import Exposition
from proving_ground.plain.generator.system import Call, Pod, Service, System, generator_for

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
MILLISECONDS = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000)
FEWEST = 5
"""Requests of a status in all hours below which there are none: each status costs a histogram."""
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
        extra=(("http_request_method", "POST"), ("http_route", "/api/items/{id}"), ("url_scheme", "http")),
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
FAILED = {
    "otel_rpc": ("13", "14", "4"),
    "grpc": ("Internal", "Unavailable", "DeadlineExceeded"),
}
HTTP_FAILED = ("500", "503", "504")
"""Status of a request that failed by itself, by what it calls, and by a time-out."""


class RequestMetrics:
    """Writes the request metrics of a system."""

    def __init__(self, flow: Flow, exposition: Exposition) -> None:
        self.flow = flow
        self.system = flow.system
        self.exposition = exposition
        self.elapsed = np.minimum(flow.clock.elapsed, 300.0)

    def write(self) -> None:
        """Of every service and every call that is watched."""
        for service in self.system.of_role("front", "app"):
            for pod in service.pods:
                self.write_server(service, pod)
        if self.system.calls_by == "mesh":
            for call in self.system.calls:
                self.write_mesh(call, self.system.services[call.caller])
            self.write_gateway()
        elif self.system.calls_by == "client metrics":
            for call in self.system.calls:
                self.write_client(call)
        for call in self.system.calls:
            self.write_pool(call)
        if self.system.has_ingress:
            self.write_ingress()
        if self.system.staging:
            self.write_staging()

    def target(self, service: Service, pod: Pod, namespace: str = "") -> Labels:
        """Labels that service discovery, or the collector, gives to a pod's series."""
        system, name = self.system, service.name
        namespace = namespace or system.namespace
        port = "9464" if service.family in ("otel", "otel_rpc") else "8080"
        if service.family in ("otel", "otel_rpc") and system.seed % 3 == 0:
            labels = {"job": f"{namespace}/{name}", "instance": pod.name}
            # Prometheus can promote resource attributes of OTLP.
            if system.seed % 2:
                labels |= {"service_name": name, "k8s_namespace_name": namespace, "k8s_pod_name": pod.name}
            return labels
        if system.label_style == "operator":
            return {
                "namespace": namespace, "service": name, "job": name, "pod": pod.name,
                "container": name, "endpoint": "http-metrics", "instance": f"{pod.ip}:{port}",
            }  # fmt: skip
        if system.label_style == "annotations":
            return {
                "namespace": namespace, "app": name, "pod": pod.name, "job": "kubernetes-pods",
                "instance": f"{pod.ip}:{port}",
            }  # fmt: skip
        env = "prod" if namespace == system.namespace else "staging"
        return {"job": name, "instance": f"{pod.name}:{port}", "env": env}

    def lives(self, pod: Pod) -> Floats:
        """How often a pod's container has begun anew."""
        lives = np.zeros(self.flow.clock.seconds.size)
        for restart_s in pod.restarts_s:
            lives += self.flow.clock.seconds >= restart_s + 10
        return lives

    def write_server(self, service: Service, pod: Pod) -> None:
        """What a pod counts of its own requests."""
        if service.family == "istio":
            return
        flow, family = self.flow, SERVERS[service.family]
        labels = self.target(service, pod) | dict(family.extra)
        if service.family == "micrometer" and self.system.seed % 2:
            labels["application"] = service.name
        if service.family in ("grpc", "otel_rpc"):
            labels["grpc_service" if service.family == "grpc" else "rpc_service"] = rpc_name(service)
        own, late = flow.self_failed[pod.name], self.late_share(service)
        below = np.maximum(flow.failed[pod.name] - own, 0)
        self.write_counts(
            family,
            labels,
            flow.rate[service.name] * flow.share[pod.name],
            flow.latency[pod.name],
            dict(zip(FAILED.get(service.family, HTTP_FAILED), (own, below * (1 - late), below * late), strict=True)),
            pod,
        )

    def late_share(self, service: Service) -> Floats:
        """Of the failures of what a service calls, the share that are time-outs."""
        late, failed = np.zeros(self.elapsed.size), np.full(self.elapsed.size, 1e-6)
        for call in self.system.calls_of(service.name):
            late = late + self.flow.calls_late[edge(call)]
            failed = failed + self.flow.calls_failed[edge(call)]
        return np.minimum(late / failed, 1)

    def write_counts(
        self,
        family: Family,
        labels: Labels,
        rate: Floats,
        latency_ms: Floats,
        failed: Mapping[str, Floats],
        pod: Pod,
        tag: str = "",
    ) -> None:
        """Counters and histogram of requests at that rate, by status."""
        exposition = self.exposition
        rng = generator_for(self.system.seed, "counts", family.histogram, *labels.values(), tag)
        present = np.where(self.flow.alive[pod.name], 1.0, np.nan)
        resets = self.lives(pod)
        shares = {family.ok: 1 - sum(failed.values(), np.zeros(rate.size)), **failed}
        bounds = MILLISECONDS if family.in_ms else SECONDS
        scale = 1.0 if family.in_ms else 1000.0
        everything = np.zeros((len(bounds) + 1, rate.size))
        for status, share in shares.items():
            expected = rate * self.elapsed * np.clip(share, 0, 1)
            if expected.sum() < FEWEST:
                continue
            counts = bucket_counts(rng, expected, latency_ms, bounds, scale)
            with_status = labels | {family.status: status}
            if family.status == "response_code" and status != "200":
                with_status["response_flags"] = "UT" if status == "504" else "UF" if status == "503" else "-"
            if family.has_counter:
                exposition.counter(
                    family.counter, with_status, counts.sum(axis=0) * present, resets=resets, is_born_late=True
                )
            if family.counted_by_status:
                self.write_histogram(family, with_status, counts, latency_ms, present, resets)
            everything += counts
        if not family.counted_by_status:
            self.write_histogram(family, labels, everything, latency_ms, present, resets)

    def write_histogram(
        self, family: Family, labels: Labels, counts: Floats, latency_ms: Floats, present: Floats, resets: Floats
    ) -> None:
        """Buckets, sum and count; not there before the first request."""
        exposition, name = self.exposition, family.histogram
        born = np.where(np.cumsum(counts.sum(axis=0)) > 0, present, np.nan)
        bounds = (*(MILLISECONDS if family.in_ms else SECONDS), "+Inf")
        scale = 1.0 if family.in_ms else 1000.0
        for number, bound in enumerate(bounds):
            upto = counts[: number + 1].sum(axis=0) * born
            le = bound if isinstance(bound, str) else f"{bound:g}"
            exposition.counter(f"{name}_bucket", labels | {"le": le}, upto, resets=resets)
        total = counts.sum(axis=0) * born
        exposition.counter(f"{name}_count", labels, total, resets=resets)
        exposition.counter(f"{name}_sum", labels, total * latency_ms / scale, resets=resets)

    def write_client(self, call: Call) -> None:
        """What a caller's pods count of their calls."""
        flow, caller = self.flow, self.system.services[call.caller]
        callee, name = self.system.services[call.callee], edge(call)
        if callee.role == "queue" or (callee.role in ("database", "cache") and caller.family in ("micrometer", "grpc")):
            return
        family, labels = self.client_family(caller, callee)
        late = flow.calls_late[name]
        failed = np.maximum(flow.calls_failed[name] - late, 0)
        statuses = dict(zip(client_failures(caller, callee), (failed, late), strict=True))
        for pod in caller.pods:
            rate = flow.calls_rate[name] * flow.share[pod.name]
            self.write_counts(
                family, self.target(caller, pod) | labels, rate, flow.calls_ms[name], statuses, pod, "client"
            )

    def client_family(self, caller: Service, callee: Service) -> tuple[Family, Labels]:
        """Names and labels of the metric by which a caller watches a callee."""
        host = callee.name if callee.role == "provider" else f"{callee.name}.{self.system.namespace}.svc.cluster.local"
        if callee.role in ("database", "cache"):
            system = "postgresql" if callee.role == "database" else "redis"
            return Family(
                "", "db_client_operation_duration_seconds", "error_type", "", "", has_counter=False
            ), {"db_system_name": system, "server_address": host, "db_operation_name": "SELECT" if system != "redis" else "GET"}
        if caller.family == "micrometer":
            return Family("", "http_client_requests_seconds", "status", "200", "", has_counter=False), {
                "client_name": host, "method": "GET", "uri": "/items/{id}",
            }  # fmt: skip
        if caller.family == "grpc" and callee.role != "provider" and callee.family in ("grpc", "otel_rpc"):
            return Family(
                "grpc_client_handled_total", "grpc_client_handling_seconds", "grpc_code", "OK", "", counted_by_status=False
            ), {"grpc_service": rpc_name(callee), "grpc_method": "Get", "grpc_type": "unary"}
        if caller.family == "otel_rpc" and callee.family in ("grpc", "otel_rpc") and callee.role != "provider":
            return Family(
                "", "rpc_client_duration_milliseconds", "rpc_grpc_status_code", "0", "", in_ms=True, has_counter=False
            ), {"rpc_system": "grpc", "rpc_service": rpc_name(callee), "rpc_method": "Get", "server_address": host}
        return Family("", "http_client_request_duration_seconds", "http_response_status_code", "200", "", has_counter=False), {
            "http_request_method": "GET", "server_address": host, "server_port": "443" if callee.role == "provider" else "8080",
        }  # fmt: skip

    def write_gateway(self) -> None:
        """The mesh's gateway calls the front door."""
        flow, (front,) = self.flow, self.system.of_role("front")
        pod = Pod("istio-ingressgateway-6f9c-x7k2p", "", "10.244.0.7", "1.24")
        flow.alive[pod.name] = np.ones(self.elapsed.size, dtype=bool)
        flow.share[pod.name] = np.ones(self.elapsed.size)
        gateway = Service("istio-ingressgateway", "front", 0, "istio", 1.0, "1.24", "1.24", 1e8, [pod])
        call = Call(gateway.name, front.name, 1.0, 30.0)
        flow.calls_rate[edge(call)] = flow.rate[front.name]
        flow.calls_ms[edge(call)] = flow.mean_over_pods(flow.latency, front) + 1
        flow.calls_failed[edge(call)] = flow.mean_over_pods(flow.failed, front)
        flow.calls_late[edge(call)] = np.zeros(self.elapsed.size)
        self.write_mesh(call, gateway)

    def write_mesh(self, call: Call, caller: Service) -> None:
        """What the callee's proxies count of a call, and the caller's of a store or provider."""
        flow, system = self.flow, self.system
        callee = system.services[call.callee]
        name = edge(call)
        workload = {
            "source_workload": caller.name, "source_app": caller.name, "source_canonical_service": caller.name,
            "source_workload_namespace": system.namespace, "request_protocol": "http",
            "destination_service_name": callee.name, "destination_service_namespace": system.namespace,
            "destination_service": f"{callee.name}.{system.namespace}.svc.cluster.local",
        }  # fmt: skip
        if callee.role in ("front", "app"):
            workload |= {
                "destination_workload": callee.name, "destination_app": callee.name,
                "destination_canonical_service": callee.name, "destination_workload_namespace": system.namespace,
            }  # fmt: skip
            for pod in callee.pods:
                labels = workload | self.sidecar(callee, pod, "destination")
                rate = flow.calls_rate[name] * flow.share[pod.name]
                inside = np.minimum(flow.failed[pod.name], flow.calls_failed[name])
                self.write_counts(SERVERS["istio"], labels, rate, flow.latency[pod.name], {"500": inside}, pod)
        if callee.role == "provider":
            workload |= {
                "destination_service": callee.name, "destination_workload": "unknown", "destination_app": "unknown",
                "destination_canonical_service": "unknown", "destination_service_namespace": "unknown",
            }  # fmt: skip
        if callee.role in ("database", "cache", "queue"):
            for pod in caller.pods:
                labels = workload | self.sidecar(caller, pod, "source") | {"request_protocol": "tcp"}
                rng = generator_for(system.seed, "tcp", name, pod.name)
                opened = rng.poisson(0.02 * flow.calls_rate[name] * flow.share[pod.name] * self.elapsed)
                present = np.where(flow.alive[pod.name], 1.0, np.nan)
                self.exposition.counter(
                    "istio_tcp_connections_opened_total", labels, opened * present, is_born_late=True
                )
            return
        late = flow.calls_late[name]
        failed = {"503": np.maximum(flow.calls_failed[name] - late, 0), "504": late}
        for pod in caller.pods:
            labels = workload | self.sidecar(caller, pod, "source")
            rate = flow.calls_rate[name] * flow.share[pod.name]
            self.write_counts(SERVERS["istio"], labels, rate, flow.calls_ms[name], failed, pod)

    def sidecar(self, service: Service, pod: Pod, reporter: str) -> Labels:
        """Labels of a proxy's target."""
        version = {"destination_version": pod.version} if reporter == "destination" else {"source_version": pod.version}
        return {
            "reporter": reporter, "namespace": self.system.namespace, "pod": pod.name,
            "app": service.name, "job": "kubernetes-pods", "instance": f"{pod.ip}:15020", **version,
        }  # fmt: skip

    def write_ingress(self) -> None:
        """The front door as ingress-nginx sees it."""
        (front,) = self.system.of_role("front")
        flow, namespace = self.flow, self.system.namespace
        failed = flow.mean_over_pods(flow.failed, front)
        latency = flow.mean_over_pods(flow.latency, front)
        family = Family("nginx_ingress_controller_requests", "nginx_ingress_controller_request_duration_seconds", "status", "200", "5..")
        for number in range(2):
            pod = Pod(f"ingress-nginx-controller-{number}", "", f"10.244.0.{9 + number}", "")
            flow.alive.setdefault(pod.name, np.ones(self.elapsed.size, dtype=bool))
            labels = {
                "job": "ingress-nginx-controller-metrics", "controller_pod": pod.name, "ingress": front.name,
                "host": f"www.{namespace.partition('-')[0]}.example", "method": "GET", "path": "/",
                "exported_namespace": namespace, "exported_service": front.name,
                "namespace": "ingress-nginx", "service": "ingress-nginx-controller-metrics",
                "instance": f"{pod.ip}:10254",
            }  # fmt: skip
            self.write_counts(family, labels, flow.rate[front.name] / 2, latency + 2, {"502": failed}, pod)

    def write_pool(self, call: Call) -> None:
        """The connections of a caller's pods to a database."""
        flow, caller, callee = self.flow, self.system.services[call.caller], self.system.services[call.callee]
        if callee.role != "database":
            return
        demand = flow.pool_demand[edge(call)]
        leaked = flow.lever("leaked", edge(call))
        used = np.round(np.minimum(POOL, demand * (POOL - leaked) + leaked))
        rate = flow.calls_rate[edge(call)] / len(caller.pods)
        pending = np.round(np.where(demand > 0.8, np.minimum(rate * 2, 40) * np.minimum(demand, 3) / 3, 0))
        for pod in caller.pods:
            present = np.where(flow.alive[pod.name], 1.0, np.nan)
            labels = self.target(caller, pod)
            timeouts = np.where(demand > 1, rate * 0.2, 0) * self.elapsed
            for name, extra, values, is_counter in pool_series(caller, callee, used, pending, timeouts):
                if is_counter:
                    self.exposition.counter(name, labels | extra, np.round(values) * present)
                else:
                    self.exposition.gauge(name, labels | extra, values * present, slow=False)

    def write_staging(self) -> None:
        """The same services in the other namespace: little traffic, and one that always fails."""
        rng = generator_for(self.system.seed, "staging")
        services = self.system.of_role("front", "app")
        failing = services[int(rng.integers(len(services)))].name
        for service in services:
            if service.family == "istio":
                continue
            pod = Pod(f"{service.name}-5f{rng.integers(10, 99)}d-{rng.integers(10000, 99999)}", "", f"10.245.1.{rng.integers(2, 250)}", "")
            self.flow.alive[pod.name] = np.ones(self.elapsed.size, dtype=bool)
            family = SERVERS[service.family]
            labels = self.target(service, pod, self.system.staging or "") | dict(family.extra)
            status = FAILED.get(service.family, HTTP_FAILED)[0]
            share = np.full(self.elapsed.size, 0.3 if service.name == failing else 0.002)
            rate = np.full(self.elapsed.size, 0.4)
            latency = service.self_ms * 3 * self.flow.noise(0.08, "staging", service.name)
            self.write_counts(family, labels, rate, latency, {status: share}, pod)


def bucket_counts(
    rng: np.random.Generator, expected: Floats, mean_ms: Floats, bounds: tuple[float, ...], scale: float
) -> Floats:
    """Requests in each bucket and above the last; shape [buckets + 1, steps]."""
    edges = np.log(np.array(bounds)[:, None] * scale / median_of(mean_ms)[None, :]) / SIGMA
    below = np.vstack([np.zeros(expected.size), normal_cdf(edges), np.ones(expected.size)])
    counts: Floats = rng.poisson(np.maximum(np.diff(below, axis=0), 0) * expected).astype(float)
    return counts


def pool_series(
    caller: Service, callee: Service, used: Floats, pending: Floats, timeouts: Floats
) -> list[tuple[str, Labels, Floats, bool]]:
    """Metrics of a pool, by the caller's instrumentation: HikariCP, OpenTelemetry, database/sql."""
    size = np.full(used.size, float(POOL))
    if caller.family == "micrometer":
        pool = {"pool": "HikariPool-1"}
        return [
            ("hikaricp_connections_active", pool, used, False),
            ("hikaricp_connections_idle", pool, size - used, False),
            ("hikaricp_connections_max", pool, size, False),
            ("hikaricp_connections", pool, size, False),
            ("hikaricp_connections_pending", pool, pending, False),
            ("hikaricp_connections_timeout_total", pool, timeouts, True),
        ]
    if caller.family in ("otel", "otel_rpc"):
        pool = {"db_client_connection_pool_name": f"{callee.name}:5432"}
        return [
            ("db_client_connection_count", pool | {"db_client_connection_state": "used"}, used, False),
            ("db_client_connection_count", pool | {"db_client_connection_state": "idle"}, size - used, False),
            ("db_client_connection_max", pool, size, False),
            ("db_client_connection_pending_requests", pool, pending, False),
            ("db_client_connection_timeouts_total", pool, timeouts, True),
        ]
    pool = {"db_name": callee.name.replace("-", "_")}
    return [
        ("go_sql_in_use_connections", pool, used, False),
        ("go_sql_idle_connections", pool, size - used, False),
        ("go_sql_max_open_connections", pool, size, False),
        ("go_sql_wait_count_total", pool, pending * 2, True),
    ]


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
    by = f"by ({label}, namespace)" if "namespace=" in where and label != "destination_workload" else f"by ({label})"

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
