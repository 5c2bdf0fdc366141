"""What runs below and beside services: containers, Kubernetes' objects, machines, databases, caches,
queues, DNS, certificates and probes, as their exporters show them.

Sources: cAdvisor's and kube-state-metrics' lists of metrics, node_exporter, postgres_exporter with
pg_stat_statements, redis_exporter, kafka_exporter, blackbox_exporter, CoreDNS' plugin prometheus,
cert-manager.
"""

from __future__ import annotations

import numpy as np

from proving_ground.plain.generator.families import Labels
from proving_ground.plain.generator.flow import HIT_RATIO, Floats, Flow, edge
from proving_ground.plain.generator.openmetrics import Exposition
from proving_ground.plain.generator.system import APPS, Node, Pod, Service, generator_for

CORES = 8
NODE_MEMORY = 32e9
PARTITIONS = 4
MAX_CONNECTIONS = 200.0
DISK = 100e9
CACHE_MEMORY = 2e9
MONITORED = {"database": "postgres-exporter", "cache": "redis-exporter", "queue": "kafka-exporter"}
"""The exporter of each kind of store."""


class InfrastructureMetrics:
    """Writes what exporters show of a system's infrastructure."""

    def __init__(self, flow: Flow, exposition: Exposition) -> None:
        self.flow = flow
        self.system = flow.system
        self.exposition = exposition
        self.elapsed = np.minimum(flow.clock.elapsed, 300.0)
        self.seconds = flow.clock.seconds
        self.cpu_of_nodes = {name: np.full(self.seconds.size, 0.6) for name in flow.system.nodes}

    def write(self) -> None:
        """Everything below and beside the services."""
        for service in self.system.services.values():
            for pod in service.pods:
                if service.role != "provider":
                    self.write_container(service, pod)
                    self.write_pod(service, pod)
            if service.role != "provider":
                self.write_workload(service)
        self.write_noisy_job()
        for node in self.system.nodes.values():
            self.write_node(node)
        for database in self.system.of_role("database"):
            self.write_postgres(database)
        for cache in self.system.of_role("cache"):
            self.write_redis(cache)
        for queue in self.system.of_role("queue"):
            self.write_kafka(queue)
        for provider in self.system.of_role("provider"):
            self.write_probe(provider)
        self.write_dns()
        self.write_certificates()
        self.write_up()

    def exporter(self, **labels: str) -> Labels:
        """Labels of kube-state-metrics or cAdvisor, which may lose against their target's."""
        target = {"job": "kube-state-metrics", "instance": "10.244.0.31:8080"}
        if self.system.honor_labels:
            return target | labels
        clash = {"namespace", "pod", "container", "service"}
        renamed = {f"exported_{name}" if name in clash else name: value for name, value in labels.items()}
        return target | {"namespace": "monitoring", "service": "kube-state-metrics"} | renamed

    def write_container(self, service: Service, pod: Pod) -> None:
        """A container as cAdvisor sees it."""
        flow = self.flow
        present = np.where(flow.alive[pod.name], 1.0, np.nan)
        rate = flow.rate[service.name] * flow.share[pod.name]
        work_ms = min(service.self_ms, 20.0)
        cores = 0.02 + rate * work_ms / 2000 * flow.lever("cpu", pod.name)
        cores = cores * flow.noise(0.04, "cpu", pod.name)
        # The limit is what the pod needs at its capacity.
        at_capacity = flow.base_rate[service.name] * 2.6 / max(service.replicas, 1) * work_ms / 2000
        limit = max(0.25, round(4 * at_capacity * 1.2) / 4)
        throttled = flow.lever("throttled", pod.name)
        limits = np.where(throttled > 0.1, 0.1, limit)
        cores = np.minimum(cores, limits)
        if pod.node in self.cpu_of_nodes:
            self.cpu_of_nodes[pod.node] = self.cpu_of_nodes[pod.node] + np.nan_to_num(cores * present)
        labels = {
            "namespace": self.system.namespace, "pod": pod.name, "container": service.name,
            "node": pod.node, "image": f"registry.internal/{service.name}:{pod.version}",
            "job": "kubelet", "metrics_path": "/metrics/cadvisor", "instance": f"{self.ip_of(pod)}:10250",
        }  # fmt: skip
        periods = self.elapsed * 10
        squeezed = np.clip(throttled + np.maximum(0, cores / limits - 0.9) * 3 + 0.002, 0, 0.95)
        counter, gauge = self.exposition.counter, self.exposition.gauge
        counter("container_cpu_usage_seconds_total", labels, cores * self.elapsed * present, slow=True)
        counter("container_cpu_cfs_periods_total", labels, periods * present, slow=True)
        counter("container_cpu_cfs_throttled_periods_total", labels, periods * squeezed * present, slow=True)
        memory_limit = round(2 * service.memory / 2**26) * 2.0**26
        memory = self.memory_of(service, pod, memory_limit)
        gauge("container_memory_working_set_bytes", labels, memory * present)
        gauge("container_spec_memory_limit_bytes", labels, memory_limit * present)
        limit_labels = self.exporter(namespace=self.system.namespace, pod=pod.name, container=service.name)
        name = "kube_pod_container_resource_limits"
        gauge(name, limit_labels | {"resource": "cpu", "unit": "core"}, limits * present)
        gauge(name, limit_labels | {"resource": "memory", "unit": "byte"}, memory_limit * present)

    def memory_of(self, service: Service, pod: Pod, limit: float) -> Floats:
        """What a container holds; a container that began anew begins small."""
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
        owner = "StatefulSet" if service.role in MONITORED else "ReplicaSet"
        gauge("kube_pod_info", labels | {
            "node": pod.node, "host_ip": self.ip_of(pod), "pod_ip": pod.ip, "created_by_kind": owner,
            "created_by_name": service.name if service.role in MONITORED else pod.name.rpartition("-")[0],
        }, present)  # fmt: skip
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
        generation = 4 + system.seed % 9 + np.where(
            rolled & (flow.lever("rolled_at", service.name)[0] < 0), 1.0, 0.0
        ) + (reduced > 0)
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
        version = 88_120 + 7 * (system.seed % 50) + np.where(
            (self.seconds >= configured_at) & (configured_at < 0), 4411.0, 0.0
        )
        config = self.exporter(namespace=system.namespace) | {"configmap": f"{service.name}-config"}
        gauge("kube_configmap_metadata_resource_version", config, version)

    def write_noisy_job(self) -> None:
        """A batch job's pod, where one runs: on a node, or against a database."""
        flow, system = self.flow, self.system
        for node in system.nodes.values():
            self.cpu_of_nodes[node.name] = self.cpu_of_nodes[node.name] + CORES * flow.lever("node_cpu", node.name)
        for target, cores in ((name, 5.4) for name in ("noisy", "job")):
            running = flow.lever("runs", target)
            if running.max() == 0:
                continue
            (name,) = (key[1] for key in flow.levers if key[0] == f"name of {target}")
            node = next((n for n in system.nodes if flow.lever("node_cpu", n).max() > 0), next(iter(system.nodes)))
            pod, present = f"{name}-29871{system.seed % 900 + 100}-h7k2w", np.where(running > 0.5, 1.0, np.nan)
            labels = {
                "namespace": "batch", "pod": pod, "container": name, "node": node, "job": "kubelet",
                "metrics_path": "/metrics/cadvisor", "instance": f"{system.nodes[node].ip}:10250",
            }  # fmt: skip
            if target == "job":
                cores = 0.8
            usage = cores * self.elapsed * flow.noise(0.03, name)
            self.exposition.counter("container_cpu_usage_seconds_total", labels, usage * present, slow=True)
            self.exposition.gauge("container_memory_working_set_bytes", labels, 9e8 * present)
            of_pod = self.exporter(namespace="batch", pod=pod)
            self.exposition.gauge("kube_pod_info", of_pod | {
                "node": node, "created_by_kind": "Job", "created_by_name": pod.rpartition("-")[0],
            }, present)  # fmt: skip
            of_job = self.exporter(namespace="batch") | {"job_name": pod.rpartition("-")[0]}
            self.exposition.gauge("kube_job_status_active", of_job, present)

    def write_node(self, node: Node) -> None:
        """A machine as node_exporter sees it."""
        counter, gauge, flow = self.exposition.counter, self.exposition.gauge, self.flow
        labels = {"job": "node-exporter", "instance": f"{node.ip}:9100", "node": node.name}
        busy = np.clip(self.cpu_of_nodes[node.name] / CORES, 0.03, 0.99) * flow.noise(0.03, node.name)
        busy = np.minimum(busy, 0.995)
        for mode, share in (("user", busy * 0.8), ("system", busy * 0.2), ("idle", 1 - busy)):
            for cpu in range(2):
                cpu_labels = labels | {"cpu": str(cpu), "mode": mode}
                counter("node_cpu_seconds_total", cpu_labels, share * self.elapsed, slow=True)
        load = self.cpu_of_nodes[node.name] * np.where(busy > 0.9, 2.2, 1.05)
        gauge("node_load1", labels, load)
        waiting = np.where(busy > 0.9, 0.6, 0.01) * self.elapsed
        counter("node_pressure_cpu_waiting_seconds_total", labels, waiting, slow=True)
        gauge("node_memory_MemTotal_bytes", labels, NODE_MEMORY)
        gauge("node_memory_MemAvailable_bytes", labels, 0.55 * NODE_MEMORY * flow.noise(0.02, "ram", node.name))
        disk = labels | {"mountpoint": "/", "fstype": "ext4", "device": "/dev/nvme0n1p1"}
        gauge("node_filesystem_size_bytes", disk, DISK)
        gauge("node_filesystem_avail_bytes", disk, 0.52 * DISK)
        rng = generator_for(self.system.seed, "retransmits", node.name)
        lost = rng.poisson((0.4 + flow.lever("retransmits", node.name)) * self.elapsed).astype(float)
        counter("node_netstat_Tcp_RetransSegs", labels, lost, slow=True)
        counter("node_network_receive_bytes_total", labels | {"device": "eth0"}, 4e6 * self.elapsed * busy, slow=True)
        gauge("node_uname_info", labels | {"nodename": node.name, "release": "6.1.0"}, 1.0)
        node_labels = self.exporter() | {"node": node.name}
        gauge("kube_node_info", node_labels | {"internal_ip": node.ip, "kubelet_version": "v1.31.2"}, 1.0)
        gauge("kube_node_labels", node_labels | {"label_topology_kubernetes_io_zone": node.zone}, 1.0)
        gauge("kube_node_status_condition", node_labels | {"condition": "Ready", "status": "true"}, 1.0)

    def store_labels(self, store: Service) -> Labels:
        """Labels of a store's exporter."""
        port = {"database": 9187, "cache": 9121, "queue": 9308}[store.role]
        labels = {"job": MONITORED[store.role], "instance": f"{store.name}:{port}"}
        if self.system.label_style == "operator":
            labels |= {"namespace": self.system.namespace, "service": f"{store.name}-exporter"}
        return labels

    def watched(self, store: Service) -> Floats:
        """1 where the exporter of a store shows it."""
        return np.where(self.flow.lever("mute", store.name) > 0.5, np.nan, 1.0)

    def write_postgres(self, database: Service) -> None:
        """A database as postgres_exporter sees it."""
        counter, gauge, flow = self.exposition.counter, self.exposition.gauge, self.flow
        labels, watched, name = self.store_labels(database), self.watched(database), database.name
        (pod,) = database.pods
        up = flow.alive[pod.name].astype(float)
        present = np.where(up > 0, watched, np.nan)
        gauge("pg_up", labels, up * watched)
        gauge("pg_settings_max_connections", labels, MAX_CONNECTIONS * present)
        base = labels | {"datname": name.rpartition("-")[0]}
        rate = flow.rate[name]
        active = rate * flow.latency[pod.name] / 1000 + 0.2
        pools = np.zeros(rate.size)
        for call in self.system.calls:
            if call.callee == name:
                leaked = flow.lever("leaked", edge(call))
                pools = pools + (3 + leaked) * len(self.system.services[call.caller].pods)
        activity = "pg_stat_activity_count"
        gauge(activity, base | {"state": "active"}, np.minimum(np.round(active), MAX_CONNECTIONS - 3) * present)
        gauge(activity, base | {"state": "idle"}, np.round(pools) * present)
        locked = flow.lever("locked_s", name)
        gauge(activity, base | {"state": "idle in transaction"}, np.where(locked > 0.5, 2.0, 0.0) * present)
        held_s = np.cumsum(np.where(locked > 0.5, self.elapsed, 0.0))
        gauge("pg_stat_activity_max_tx_duration", base | {"state": "active"}, (0.3 + flow.latency[pod.name] / 200) * present)
        gauge("pg_stat_activity_max_tx_duration", base | {"state": "idle in transaction"}, held_s * present)
        gauge("pg_locks_count", base | {"mode": "accessexclusivelock"}, np.where(locked > 0.5, 1.0, 0.0) * present)
        waiting = np.where(locked > 0.5, np.minimum(active, 60), 1.0)
        gauge("pg_locks_count", base | {"mode": "rowexclusivelock"}, np.round(waiting) * present)
        rng = generator_for(self.system.seed, "postgres", name)
        commits = rng.poisson(rate * self.elapsed).astype(float)
        counter("pg_stat_database_xact_commit", base, commits * present, slow=True)
        counter("pg_stat_database_xact_rollback", base, rng.poisson(0.01 * rate * self.elapsed) * present, slow=True)
        scanned = commits * (40 + flow.lever("scanned", name) * 40)
        counter("pg_stat_database_tup_returned", base, scanned * present, slow=True)
        counter("pg_stat_database_tup_fetched", base, commits * 12 * present, slow=True)
        counter("pg_stat_database_blks_read", base, commits * (1 + flow.lever("scanned", name)) * present, slow=True)
        statement = base | {"queryid": str(10**15 + self.system.seed * 7919), "user": "app"}
        counter("pg_stat_statements_calls_total", statement, commits * present, slow=True)
        spent = commits * flow.latency[pod.name] / 1000
        counter("pg_stat_statements_seconds_total", statement, spent * present, slow=True)
        if flow.lever("runs", "job").max() > 0 and flow.lever("extra", name).max() > 0:
            (job,) = (key[1] for key in flow.levers if key[0] == "name of job")
            heavy = flow.lever("runs", "job") * self.elapsed * 8
            other = base | {"queryid": str(10**15 + self.system.seed * 7919 + 5), "user": job.replace("-", "_")}
            counter("pg_stat_statements_calls_total", other, np.round(heavy) * present, slow=True, is_born_late=True)
            counter("pg_stat_statements_seconds_total", other, np.round(heavy) * 0.9 * present, slow=True, is_born_late=True)
        used = 0.44 + flow.lever("disk", name)
        volume = {
            "namespace": self.system.namespace, "persistentvolumeclaim": f"data-{pod.name}",
            "job": "kubelet", "instance": f"{self.ip_of(pod)}:10250", "node": pod.node,
        }  # fmt: skip
        gauge("kubelet_volume_stats_capacity_bytes", volume, DISK)
        gauge("kubelet_volume_stats_available_bytes", volume, DISK * np.maximum(0, 1 - used))
        gauge("pg_database_size_bytes", base, DISK * np.minimum(used, 1) * 0.9 * present)

    def write_redis(self, cache: Service) -> None:
        """A cache as redis_exporter sees it."""
        counter, gauge, flow = self.exposition.counter, self.exposition.gauge, self.flow
        labels, present = self.store_labels(cache), self.watched(cache)
        rng = generator_for(self.system.seed, "redis", cache.name)
        commands = flow.rate[cache.name] * self.elapsed
        hits = HIT_RATIO * flow.lever("hit_ratio", cache.name)
        flushed, evicting = flow.lever("flushed", cache.name), flow.lever("evicting", cache.name)
        gauge("redis_up", labels, present)
        gauge("redis_connected_clients", labels, np.round(24 * flow.noise(0.03, "clients")) * present)
        gauge("redis_memory_max_bytes", labels, CACHE_MEMORY * present)
        filled = np.maximum(0.62 - 0.6 * flushed, 0.02) + 0.38 * evicting
        gauge("redis_memory_used_bytes", labels, CACHE_MEMORY * np.minimum(filled, 1) * present)
        keys = np.round(410_000 * np.maximum(1 - 0.97 * flushed, 0.01))
        gauge("redis_db_keys", labels | {"db": "db0"}, keys * present)
        counter("redis_commands_processed_total", labels, rng.poisson(commands) * present, slow=True)
        counter("redis_keyspace_hits_total", labels, rng.poisson(commands * hits) * present, slow=True)
        counter("redis_keyspace_misses_total", labels, rng.poisson(commands * (1 - hits)) * present, slow=True)
        counter("redis_evicted_keys_total", labels, rng.poisson(evicting * 400 * self.elapsed) * present, slow=True)
        calls = rng.poisson(commands)
        spent = calls * flow.latency[cache.pods[0].name] / 1e6
        counter("redis_commands_total", labels | {"cmd": "get"}, calls * present, slow=True)
        counter("redis_commands_duration_seconds_total", labels | {"cmd": "get"}, spent * present, slow=True)
        flushes = np.round(np.diff((flushed > 0.5).astype(float), prepend=0.0).clip(0))
        if flushed.max() > 0:
            counter("redis_commands_total", labels | {"cmd": "flushall"}, flushes * present, slow=True, is_born_late=True)

    def write_kafka(self, queue: Service) -> None:
        """A queue's topic as kafka_exporter sees it."""
        counter, gauge, flow = self.exposition.counter, self.exposition.gauge, self.flow
        (worker,) = self.system.of_role("worker")
        labels, present = self.store_labels(queue), self.watched(queue)
        is_hot = flow.lever("hot", queue.name).max() > 0
        produced, taken = flow.rate[queue.name] * self.elapsed, flow.rate[worker.name] * self.elapsed
        for partition in range(PARTITIONS):
            topic = labels | {"topic": queue.name, "partition": str(partition)}
            share = np.full(produced.size, 1 / PARTITIONS)
            waiting = flow.lag[queue.name] / PARTITIONS
            if is_hot:
                hot = flow.lever("hot", queue.name)
                share = share * (1 - hot) + hot * (0.82 if partition == 2 else 0.06)
                waiting = np.where(hot > 0.5, flow.lag[queue.name] if partition == 2 else 3.0, waiting)
            group = topic | {"consumergroup": worker.name}
            lag = np.round(waiting + 4 * flow.noise(0.3, "lag", str(partition)))
            gauge("kafka_consumergroup_lag", group, lag * present)
            counter("kafka_topic_partition_current_offset", topic, np.round(produced * share) * present, slow=True)
            counter("kafka_consumergroup_current_offset", group, np.round(taken * share) * present, slow=True)
        gauge("kafka_consumergroup_members", labels | {"consumergroup": worker.name}, len(worker.pods) * present)

    def write_probe(self, provider: Service) -> None:
        """A provider as blackbox_exporter probes it."""
        rng = generator_for(self.system.seed, "probe", provider.name)
        labels = {"job": "blackbox", "instance": f"https://{provider.name}/healthz"}
        failed = rng.random(self.seconds.size) < self.flow.failed[provider.name]
        self.exposition.gauge("probe_success", labels, 1.0 - failed)
        duration = self.flow.latency[provider.name] / 1000 * self.flow.noise(0.1, "probe")
        self.exposition.gauge("probe_duration_seconds", labels, duration)

    def write_dns(self) -> None:
        """CoreDNS."""
        failed = self.flow.lever("dns_failed", "coredns")
        total = sum(self.flow.calls_rate.values(), np.zeros(self.seconds.size)) * 0.2 + 5
        for number in range(2):
            labels = {
                "job": "coredns", "instance": f"10.244.0.{4 + number}:9153", "namespace": "kube-system",
                "pod": f"coredns-7db6d8ff4d-{'xk2lp' if number else 'p9wqz'}", "server": "dns://:53",
            }  # fmt: skip
            if self.system.label_style == "operator":
                labels |= {"service": "coredns", "container": "coredns"}
            rng = generator_for(self.system.seed, "dns", str(number))
            for code, share in (("NOERROR", 0.8 * (1 - failed)), ("NXDOMAIN", 0.2 * (1 - failed)), ("SERVFAIL", failed + 0.0002)):
                answers = rng.poisson(total * share * self.elapsed / 2).astype(float)
                self.exposition.counter(
                    "coredns_dns_responses_total", labels | {"rcode": code, "zone": "."}, answers, slow=True, is_born_late=True
                )
            requests = rng.poisson(total * self.elapsed / 2).astype(float)
            self.exposition.counter("coredns_dns_requests_total", labels | {"zone": ".", "type": "A"}, requests, slow=True)
            for le, share in (("0.001", 0.9 * (1 - failed)), ("0.064", 0.99 - 0.8 * failed), ("2.048", 1 - failed), ("+Inf", 1 + 0 * failed)):
                self.exposition.counter(
                    "coredns_dns_request_duration_seconds_bucket", labels | {"zone": ".", "le": le}, requests * share, slow=True
                )

    def write_certificates(self) -> None:
        """cert-manager: when each service's certificate ends."""
        for service in self.system.of_role("front", "app"):
            rng = generator_for(self.system.seed, "certificate", service.name)
            expired = self.flow.lever("expired", service.name)
            left_s = float(rng.integers(15, 80)) * 86_400
            if expired.max() > 0:
                left_s = float(self.seconds[np.argmax(expired > 0)])
            labels = {
                "job": "cert-manager", "instance": "10.244.0.40:9402", "name": f"{service.name}-tls",
                "namespace" if self.system.honor_labels else "exported_namespace": self.system.namespace,
            }  # fmt: skip
            at = self.exposition.end + round(left_s)
            self.exposition.gauge("certmanager_certificate_expiration_timestamp_seconds", labels, float(at))

    def write_up(self) -> None:
        """Whether each target could be scraped."""
        for store in self.system.of_role(*MONITORED):
            up = np.nan_to_num(self.watched(store))
            self.exposition.gauge("up", self.store_labels(store), up)
        for service in self.system.of_role(*APPS):
            for pod in service.pods:
                labels = {"job": service.name, "instance": f"{pod.ip}:8080", "namespace": self.system.namespace}
                self.exposition.gauge("up", labels, np.where(self.flow.alive[pod.name], 1.0, np.nan))
