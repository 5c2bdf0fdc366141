"""What runs below services, as cAdvisor, kube-state-metrics and node_exporter show it: containers,
Kubernetes' objects and machines."""

from __future__ import annotations

import numpy as np

from proving_ground.plain.generator.families import Labels
from proving_ground.plain.generator.flow import Floats, Flow
from proving_ground.plain.generator.openmetrics import Exposition
from proving_ground.plain.generator.system import MONITORED, Node, Pod, Service, generator_for

CORES = 4
CPU_SHARE = 5000
"""A request computes for a fifth of its time, and waits for the rest."""
NODE_MEMORY = 32e9
NODE_DISK = 100e9


class ClusterMetrics:
    """Writes what exporters show of a system's cluster."""

    def __init__(self, flow: Flow, exposition: Exposition) -> None:
        self.flow = flow
        self.system = flow.system
        self.exposition = exposition
        self.elapsed = np.minimum(flow.clock.elapsed, 300.0)
        self.seconds = flow.clock.seconds
        self.cpu_of_nodes = {name: np.full(self.seconds.size, 0.6) for name in flow.system.nodes}

    def write(self) -> None:
        """Everything below the services."""
        for service in self.system.services.values():
            for pod in service.pods:
                if service.role != "provider":
                    self.write_container(service, pod)
                    self.write_pod(service, pod)
            if service.role != "provider":
                self.write_workload(service)
        for role in self.flow.jobs:
            self.write_job(role)
        for node in self.system.nodes.values():
            self.write_node(node)

    def exporter(self, **labels: str) -> Labels:
        """Labels of kube-state-metrics or cAdvisor, which may lose against their target's."""
        target = {"job": "kube-state-metrics", "instance": "10.244.0.31:8080"}
        if self.system.honor_labels:
            return target | labels
        clash = {"namespace", "pod", "container", "service"}
        renamed = {
            f"exported_{name}" if name in clash else name: value for name, value in labels.items()
        }
        return target | {"namespace": "monitoring", "service": "kube-state-metrics"} | renamed

    def write_container(self, service: Service, pod: Pod) -> None:
        """A container as cAdvisor sees it."""
        flow = self.flow
        present = np.where(flow.alive[pod.name], 1.0, np.nan)
        rate = flow.rate[service.name] * flow.share[pod.name]
        work_ms = min(service.self_ms, 20.0)
        cores = 0.02 + rate * work_ms / CPU_SHARE * flow.lever("cpu", pod.name)
        cores = cores * flow.noise(0.04, "cpu", pod.name)
        # The limit is what the pod needs at its capacity.
        most = 2.6 * flow.base_rate[service.name] / max(service.replicas, 1)
        at_capacity = most * work_ms / CPU_SHARE
        limit = max(0.25, round(4 * at_capacity * 1.2) / 4)
        throttled = flow.lever("throttled", pod.name)
        limits = np.where(throttled > 0.1, 0.1, limit)
        cores = np.minimum(cores, limits)
        if pod.node in self.cpu_of_nodes:
            self.cpu_of_nodes[pod.node] = self.cpu_of_nodes[pod.node] + np.nan_to_num(
                cores * present
            )
        labels = {
            "namespace": self.system.namespace, "pod": pod.name, "container": service.name,
            "node": pod.node, "job": "kubelet", "instance": f"{self.ip_of(pod)}:10250",
        }  # fmt: skip
        periods = self.elapsed * 10
        squeezed = np.clip(throttled + np.maximum(0, cores / limits - 0.9) * 3 + 0.002, 0, 0.95)
        counter, gauge = self.exposition.counter, self.exposition.gauge
        counter(
            "container_cpu_usage_seconds_total", labels, cores * self.elapsed * present, slow=True
        )
        counter("container_cpu_cfs_periods_total", labels, periods * present, slow=True)
        counter(
            "container_cpu_cfs_throttled_periods_total",
            labels,
            periods * squeezed * present,
            slow=True,
        )
        memory_limit = round(2 * service.memory / 2**26) * 2.0**26
        memory = self.memory_of(service, pod, memory_limit)
        gauge("container_memory_working_set_bytes", labels, memory * present)
        gauge("container_spec_memory_limit_bytes", labels, memory_limit * present)
        limit_labels = self.exporter(
            namespace=self.system.namespace, pod=pod.name, container=service.name
        )
        name = "kube_pod_container_resource_limits"
        gauge(name, limit_labels | {"resource": "cpu", "unit": "core"}, limits * present)
        gauge(name, limit_labels | {"resource": "memory", "unit": "byte"}, memory_limit * present)

    def memory_of(self, service: Service, pod: Pod, limit: float) -> Floats:
        """What a container holds; a restarted container begins small."""
        grown = self.flow.lever("memory", pod.name) * limit
        since = np.full(self.seconds.size, 1e9)
        for restart_s in pod.restarts_s:
            since = np.where(self.seconds >= restart_s, self.seconds - restart_s, since)
        memory = service.memory * self.flow.noise(0.02, "memory", pod.name)
        return np.minimum(limit, (memory + grown) * np.clip(0.4 + since / 300, 0, 1))

    def ip_of(self, pod: Pod) -> str:
        """The address of a pod's machine."""
        node = self.system.nodes.get(pod.node)
        return node.ip if node else "10.0.0.1"

    def write_pod(self, service: Service, pod: Pod) -> None:
        """A pod as kube-state-metrics sees it."""
        gauge, system = self.exposition.gauge, self.system
        present = np.where(self.flow.alive[pod.name], 1.0, np.nan)
        labels = self.exporter(namespace=system.namespace, pod=pod.name)
        container = labels | self.exporter(container=service.name)
        is_store = service.role in MONITORED
        owner = {
            "node": pod.node,
            "host_ip": self.ip_of(pod),
            "pod_ip": pod.ip,
            "created_by_kind": "StatefulSet" if is_store else "ReplicaSet",
            "created_by_name": service.name if is_store else pod.name.rpartition("-")[0],
        }
        gauge("kube_pod_info", labels | owner, present)
        image = f"registry.internal/{service.name}:{pod.version}"
        gauge("kube_pod_container_info", container | {"image": image, "image_spec": image}, present)
        if pod.begin_s is not None:
            gauge("kube_pod_created", labels, (self.exposition.end + round(pod.begin_s)) * present)
        restarts = np.zeros(self.seconds.size)
        for restart_s in pod.restarts_s:
            restarts += self.seconds >= restart_s
        gauge("kube_pod_container_status_restarts_total", container, restarts * present)
        ready = np.ones(self.seconds.size)
        for restart_s in pod.restarts_s:
            ready[(self.seconds >= restart_s) & (self.seconds < restart_s + 25)] = 0
        gauge("kube_pod_container_status_ready", container, ready * present)
        if pod.restarts_s:
            reason = "OOMKilled" if self.flow.lever("memory", pod.name).max() > 0.1 else "Error"
            killed = np.where(restarts > 0, 1.0, np.nan) * present
            name = "kube_pod_container_status_last_terminated_reason"
            gauge(name, container | {"reason": reason}, killed)
            if reason == "Error":
                waiting = np.where(ready < 1, 1.0, np.nan) * present
                name = "kube_pod_container_status_waiting_reason"
                gauge(name, container | {"reason": "CrashLoopBackOff"}, waiting)

    def write_workload(self, service: Service) -> None:
        """A Deployment or StatefulSet as kube-state-metrics sees it."""
        gauge, flow, system = self.exposition.gauge, self.flow, self.system
        is_store = service.role in MONITORED
        labels = self.exporter(namespace=system.namespace) | {
            "statefulset" if is_store else "deployment": service.name
        }
        available = sum((flow.serving(pod) > 0.5).astype(float) for pod in service.pods)
        reduced = flow.lever("gone", service.name) + flow.lever("scaled", service.name)
        target = 0.0 if flow.lever("gone", service.name).max() > 0 else 1.0
        desired = np.where(reduced > 0, target, float(service.replicas))
        rolled = self.seconds >= flow.lever("rolled_at", service.name)[0]
        generation = (
            4
            + system.seed % 9
            + np.where(rolled & (flow.lever("rolled_at", service.name)[0] < 0), 1.0, 0.0)
            + (reduced > 0)
        )
        kind = "statefulset" if is_store else "deployment"
        gauge(f"kube_{kind}_metadata_generation", labels, generation)
        gauge(f"kube_{kind}_status_observed_generation", labels, generation)
        if is_store:
            gauge("kube_statefulset_replicas", labels, desired)
            gauge("kube_statefulset_status_replicas_ready", labels, available)
            return
        gauge("kube_deployment_spec_replicas", labels, desired)
        gauge("kube_deployment_status_replicas_available", labels, available)
        configured_at = flow.lever("configured_at", service.name)[0]
        version = (
            88_120
            + 7 * (system.seed % 50)
            + np.where((self.seconds >= configured_at) & (configured_at < 0), 4411.0, 0.0)
        )
        config = self.exporter(namespace=system.namespace) | {"configmap": f"{service.name}-config"}
        gauge("kube_configmap_metadata_resource_version", config, version)

    def write_job(self, role: str) -> None:
        """A batch job's pod, where it runs: busy on a node, or waiting for a database."""
        flow, system, name = self.flow, self.system, self.flow.jobs[role]
        running = flow.lever("runs", role)
        if running.max() == 0:
            return
        busiest = max(system.nodes, key=lambda node: float(flow.lever("node_cpu", node).max()))
        cores = CORES * flow.lever("node_cpu", busiest).max() or 0.8
        present = np.where(running > 0.5, 1.0, np.nan)
        job = f"{name}-29871{system.seed % 900 + 100}"
        labels = {
            "namespace": "batch", "pod": f"{job}-h7k2w", "container": name, "node": busiest,
            "job": "kubelet", "instance": f"{system.nodes[busiest].ip}:10250",
        }  # fmt: skip
        usage = cores * self.elapsed * flow.noise(0.03, name)
        counter, gauge = self.exposition.counter, self.exposition.gauge
        counter("container_cpu_usage_seconds_total", labels, usage * present, slow=True)
        gauge("container_memory_working_set_bytes", labels, 9e8 * present)
        pod = self.exporter(namespace="batch", pod=f"{job}-h7k2w")
        owner = {"node": busiest, "created_by_kind": "Job", "created_by_name": job}
        gauge("kube_pod_info", pod | owner, present)
        gauge(
            "kube_job_status_active", self.exporter(namespace="batch") | {"job_name": job}, present
        )

    def write_node(self, node: Node) -> None:
        """A machine as node_exporter sees it."""
        counter, gauge, flow = self.exposition.counter, self.exposition.gauge, self.flow
        labels = {"job": "node-exporter", "instance": f"{node.ip}:9100", "node": node.name}
        cores = self.cpu_of_nodes[node.name] + CORES * flow.lever("node_cpu", node.name)
        busy = np.clip(cores / CORES, 0.03, 0.99) * flow.noise(0.03, node.name)
        busy = np.minimum(busy, 0.995)
        for mode, share in (("user", busy * 0.8), ("system", busy * 0.2), ("idle", 1 - busy)):
            for cpu in range(CORES):
                cpu_labels = labels | {"cpu": str(cpu), "mode": mode}
                counter("node_cpu_seconds_total", cpu_labels, share * self.elapsed, slow=True)
        load = cores * np.where(busy > 0.9, 2.2, 1.05)
        gauge("node_load1", labels, load)
        waiting = np.where(busy > 0.9, 0.6, 0.01) * self.elapsed
        counter("node_pressure_cpu_waiting_seconds_total", labels, waiting, slow=True)
        gauge("node_memory_MemTotal_bytes", labels, NODE_MEMORY)
        gauge(
            "node_memory_MemAvailable_bytes",
            labels,
            0.55 * NODE_MEMORY * flow.noise(0.02, "ram", node.name),
        )
        disk = labels | {"mountpoint": "/", "fstype": "ext4", "device": "/dev/nvme0n1p1"}
        gauge("node_filesystem_size_bytes", disk, NODE_DISK)
        gauge("node_filesystem_avail_bytes", disk, 0.52 * NODE_DISK)
        rng = generator_for(self.system.seed, "retransmits", node.name)
        lost = rng.poisson((0.4 + flow.lever("retransmits", node.name)) * self.elapsed).astype(
            float
        )
        counter("node_netstat_Tcp_RetransSegs", labels, lost, slow=True)
        counter(
            "node_network_receive_bytes_total",
            labels | {"device": "eth0"},
            4e6 * self.elapsed * busy,
            slow=True,
        )
        gauge("node_uname_info", labels | {"nodename": node.name, "release": "6.1.0"}, 1.0)
        node_labels = self.exporter() | {"node": node.name}
        gauge(
            "kube_node_info",
            node_labels | {"internal_ip": node.ip, "kubelet_version": "v1.31.2"},
            1.0,
        )
        gauge(
            "kube_node_labels", node_labels | {"label_topology_kubernetes_io_zone": node.zone}, 1.0
        )
        gauge(
            "kube_node_status_condition",
            node_labels | {"condition": "Ready", "status": "true"},
            1.0,
        )
