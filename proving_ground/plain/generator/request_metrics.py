"""Writes the request metrics of a system: what servers, callers, proxies and pools count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proving_ground.plain.generator.families import (
    FAILED,
    HTTP_FAILED,
    SERVERS,
    Family,
    Labels,
    client_failures,
    client_family,
    rpc_name,
)
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
from proving_ground.plain.generator.system import Call, Pod, Service, generator_for

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
MILLISECONDS = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
FEWEST = 5
"""Requests of a status in all hours below which there are none: each status costs a histogram."""


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
                labels |= {
                    "service_name": name,
                    "k8s_namespace_name": namespace,
                    "k8s_pod_name": pod.name,
                }
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
        """How often a pod's container has restarted."""
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
            labels["grpc_service" if service.family == "grpc" else "rpc_service"] = rpc_name(
                service
            )
        alone, late = flow.self_failed[pod.name], self.late_share(service)
        below = np.maximum(flow.failed[pod.name] - alone, 0)
        self.write_counts(
            family,
            labels,
            flow.rate[service.name] * flow.share[pod.name],
            flow.latency[pod.name],
            dict(
                zip(
                    FAILED.get(service.family, HTTP_FAILED),
                    (alone, below * (1 - late), below * late),
                    strict=True,
                )
            ),
            pod,
        )

    def late_share(self, service: Service) -> Floats:
        """Of the failures of what a service calls, the share that are time-outs."""
        late, failed = np.zeros(self.elapsed.size), np.full(self.elapsed.size, 1e-6)
        for call in self.system.calls_of(service.name):
            late = late + self.flow.calls_late[edge(call)]
            failed = failed + self.flow.calls_failed[edge(call)]
        share: Floats = np.minimum(late / failed, 1)
        return share

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
                with_status["response_flags"] = (
                    "UT" if status == "504" else "UF" if status == "503" else "-"
                )
            if family.has_counter:
                exposition.counter(
                    family.counter,
                    with_status,
                    counts.sum(axis=0) * present,
                    resets=resets,
                    is_born_late=True,
                )
            if family.counted_by_status:
                self.write_histogram(family, with_status, counts, latency_ms, present, resets)
            everything += counts
        if not family.counted_by_status:
            self.write_histogram(family, labels, everything, latency_ms, present, resets)

    def write_histogram(
        self,
        family: Family,
        labels: Labels,
        counts: Floats,
        latency_ms: Floats,
        present: Floats,
        resets: Floats,
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
        if callee.role == "queue" or (
            callee.role in ("database", "cache") and caller.family in ("micrometer", "grpc")
        ):
            return
        family, labels = client_family(caller, callee, self.system.namespace)
        late = flow.calls_late[name]
        failed = np.maximum(flow.calls_failed[name] - late, 0)
        statuses = dict(zip(client_failures(caller, callee), (failed, late), strict=True))
        for pod in caller.pods:
            rate = flow.calls_rate[name] * flow.share[pod.name]
            self.write_counts(
                family,
                self.target(caller, pod) | labels,
                rate,
                flow.calls_ms[name],
                statuses,
                pod,
                "client",
            )

    def write_gateway(self) -> None:
        """The mesh's gateway calls the front door."""
        flow, (front,) = self.flow, self.system.of_role("front")
        pod = Pod("istio-ingressgateway-6f9c-x7k2p", "", "10.244.0.7", "1.24")
        flow.alive[pod.name] = np.ones(self.elapsed.size, dtype=bool)
        flow.share[pod.name] = np.ones(self.elapsed.size)
        gateway = Service(
            "istio-ingressgateway", "front", 0, "istio", 1.0, "1.24", "1.24", 1e8, [pod]
        )
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
            "source_workload": caller.name, "source_workload_namespace": system.namespace,
            "request_protocol": "http", "destination_service_name": callee.name,
            "destination_service": f"{callee.name}.{system.namespace}.svc.cluster.local",
        }  # fmt: skip
        if callee.role in ("front", "app"):
            workload |= {
                "destination_workload": callee.name,
                "destination_workload_namespace": system.namespace,
            }  # fmt: skip
            for pod in callee.pods:
                labels = workload | self.sidecar(callee, pod, "destination")
                rate = flow.calls_rate[name] * flow.share[pod.name]
                inside = np.minimum(flow.failed[pod.name], flow.calls_failed[name])
                self.write_counts(
                    SERVERS["istio"], labels, rate, flow.latency[pod.name], {"500": inside}, pod
                )
        if callee.role == "provider":
            workload |= {"destination_service": callee.name, "destination_workload": "unknown"}
        if callee.role in ("database", "cache", "queue"):
            for pod in caller.pods:
                labels = (
                    workload | self.sidecar(caller, pod, "source") | {"request_protocol": "tcp"}
                )
                rng = generator_for(system.seed, "tcp", name, pod.name)
                opened = rng.poisson(
                    0.02 * flow.calls_rate[name] * flow.share[pod.name] * self.elapsed
                )
                present = np.where(flow.alive[pod.name], 1.0, np.nan)
                self.exposition.counter(
                    "istio_tcp_connections_opened_total",
                    labels,
                    opened * present,
                    is_born_late=True,
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
        version = (
            {"destination_version": pod.version}
            if reporter == "destination"
            else {"source_version": pod.version}
        )
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
        family = Family(
            "nginx_ingress_controller_requests",
            "nginx_ingress_controller_request_duration_seconds",
            "status",
            "200",
            "5..",
        )
        for number in range(2):
            pod = Pod(f"ingress-nginx-controller-{number}", "", f"10.244.0.{9 + number}", "")
            flow.alive.setdefault(pod.name, np.ones(self.elapsed.size, dtype=bool))
            labels = {
                "job": "ingress-nginx-controller-metrics", "controller_pod": pod.name,
                "ingress": front.name, "host": f"www.{namespace.partition('-')[0]}.example",
                "method": "GET", "path": "/", "exported_service": front.name,
                "exported_namespace": namespace,
                "namespace": "ingress-nginx", "service": "ingress-nginx-controller-metrics",
                "instance": f"{pod.ip}:10254",
            }  # fmt: skip
            self.write_counts(
                family, labels, flow.rate[front.name] / 2, latency + 2, {"502": failed}, pod
            )

    def write_pool(self, call: Call) -> None:
        """The connections of a caller's pods to a database."""
        flow, caller, callee = (
            self.flow,
            self.system.services[call.caller],
            self.system.services[call.callee],
        )
        if callee.role != "database":
            return
        demand = flow.pool_demand[edge(call)]
        leaked = flow.lever("leaked", edge(call))
        used = np.round(np.minimum(POOL, demand * (POOL - leaked) + leaked))
        rate = flow.calls_rate[edge(call)] / len(caller.pods)
        pending = np.round(
            np.where(demand > 0.8, np.minimum(rate * 2, 40) * np.minimum(demand, 3) / 3, 0)
        )
        for pod in caller.pods:
            present = np.where(flow.alive[pod.name], 1.0, np.nan)
            labels = self.target(caller, pod)
            timeouts = np.where(demand > 1, rate * 0.2, 0) * self.elapsed
            for name, extra, values, is_counter in pool_series(
                caller, callee, used, pending, timeouts
            ):
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
            pod = Pod(
                f"{service.name}-5f{rng.integers(10, 99)}d-{rng.integers(10000, 99999)}",
                "",
                f"10.245.1.{rng.integers(2, 250)}",
                "",
            )
            self.flow.alive[pod.name] = np.ones(self.elapsed.size, dtype=bool)
            family = SERVERS[service.family]
            labels = self.target(service, pod, self.system.staging or "") | dict(family.extra)
            status = FAILED.get(service.family, HTTP_FAILED)[0]
            share = np.full(self.elapsed.size, 0.3 if service.name == failing else 0.002)
            rate = np.full(self.elapsed.size, 0.4)
            latency = service.self_ms * 3 * self.flow.noise(0.08, "staging", service.name)
            self.write_counts(family, labels, rate, latency, {status: share}, pod)


def bucket_counts(
    rng: np.random.Generator,
    expected: Floats,
    mean_ms: Floats,
    bounds: tuple[float, ...],
    scale: float,
) -> Floats:
    """Requests in each bucket and above the last; shape [buckets + 1, steps]."""
    edges = np.log(np.array(bounds)[:, None] * scale / median_of(mean_ms)[None, :]) / SIGMA
    below = np.vstack([np.zeros(expected.size), normal_cdf(edges), np.ones(expected.size)])
    counts: Floats = rng.poisson(np.maximum(np.diff(below, axis=0), 0) * expected).astype(float)
    return counts


def pool_series(
    caller: Service, callee: Service, used: NDArray[Any], pending: NDArray[Any], timeouts: Floats
) -> list[tuple[str, Labels, NDArray[Any], bool]]:
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
            (
                "db_client_connection_count",
                pool | {"db_client_connection_state": "used"},
                used,
                False,
            ),
            (
                "db_client_connection_count",
                pool | {"db_client_connection_state": "idle"},
                size - used,
                False,
            ),
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
