"""What runs beside services, as exporters show it: databases, caches, queues, DNS, certificates,
and probes of providers.

Sources: postgres_exporter with pg_stat_statements, redis_exporter, kafka_exporter,
blackbox_exporter, CoreDNS' plugin prometheus, cert-manager.
"""

from __future__ import annotations

import numpy as np

from proving_ground.plain.generator.families import Labels
from proving_ground.plain.generator.flow import HIT_RATIO, Floats, Flow, edge
from proving_ground.plain.generator.openmetrics import Exposition
from proving_ground.plain.generator.system import APPS, MONITORED, Service, generator_for

PARTITIONS = 4
MAX_CONNECTIONS = 200.0
DISK = 100e9
CACHE_MEMORY = 2e9


class StoreMetrics:
    """Writes what exporters show of what a system's services use."""

    def __init__(self, flow: Flow, exposition: Exposition) -> None:
        self.flow = flow
        self.system = flow.system
        self.exposition = exposition
        self.elapsed = np.minimum(flow.clock.elapsed, 300.0)
        self.seconds = flow.clock.seconds

    def write(self) -> None:
        """Everything beside the services."""
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
        gauge(
            activity,
            base | {"state": "active"},
            np.minimum(np.round(active), MAX_CONNECTIONS - 3) * present,
        )
        gauge(activity, base | {"state": "idle"}, np.round(pools) * present)
        locked = flow.lever("locked_s", name)
        gauge(
            activity,
            base | {"state": "idle in transaction"},
            np.where(locked > 0.5, 2.0, 0.0) * present,
        )
        held_s = np.cumsum(np.where(locked > 0.5, self.elapsed, 0.0))
        gauge(
            "pg_stat_activity_max_tx_duration",
            base | {"state": "active"},
            (0.3 + flow.latency[pod.name] / 200) * present,
        )
        gauge(
            "pg_stat_activity_max_tx_duration",
            base | {"state": "idle in transaction"},
            held_s * present,
        )
        gauge(
            "pg_locks_count",
            base | {"mode": "accessexclusivelock"},
            np.where(locked > 0.5, 1.0, 0.0) * present,
        )
        waiting = np.where(locked > 0.5, np.minimum(active, 60), 1.0)
        gauge("pg_locks_count", base | {"mode": "rowexclusivelock"}, np.round(waiting) * present)
        rng = generator_for(self.system.seed, "postgres", name)
        commits = rng.poisson(rate * self.elapsed).astype(float)
        counter("pg_stat_database_xact_commit", base, commits * present, slow=True)
        counter(
            "pg_stat_database_xact_rollback",
            base,
            rng.poisson(0.01 * rate * self.elapsed) * present,
            slow=True,
        )
        scanned = commits * (40 + flow.lever("scanned", name) * 40)
        counter("pg_stat_database_tup_returned", base, scanned * present, slow=True)
        counter("pg_stat_database_tup_fetched", base, commits * 12 * present, slow=True)
        counter(
            "pg_stat_database_blks_read",
            base,
            commits * (1 + flow.lever("scanned", name)) * present,
            slow=True,
        )
        statement = base | {"queryid": str(10**15 + self.system.seed * 7919), "user": "app"}
        counter("pg_stat_statements_calls_total", statement, commits * present, slow=True)
        spent = commits * flow.latency[pod.name] / 1000
        counter("pg_stat_statements_seconds_total", statement, spent * present, slow=True)
        if flow.lever("runs", "job").max() > 0 and flow.lever("extra", name).max() > 0:
            user = flow.jobs["job"].replace("-", "_")
            heavy = flow.lever("runs", "job") * self.elapsed * 8
            other = base | {
                "queryid": str(10**15 + self.system.seed * 7919 + 5),
                "user": user,
            }
            counter(
                "pg_stat_statements_calls_total",
                other,
                np.round(heavy) * present,
                slow=True,
                is_born_late=True,
            )
            counter(
                "pg_stat_statements_seconds_total",
                other,
                np.round(heavy) * 0.9 * present,
                slow=True,
                is_born_late=True,
            )
        used = 0.44 + flow.lever("disk", name)
        volume = {
            "namespace": self.system.namespace, "persistentvolumeclaim": f"data-{pod.name}",
            "job": "kubelet", "instance": f"{self.system.nodes[pod.node].ip}:10250",
            "node": pod.node,
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
        gauge(
            "redis_connected_clients", labels, np.round(24 * flow.noise(0.03, "clients")) * present
        )
        gauge("redis_memory_max_bytes", labels, CACHE_MEMORY * present)
        filled = np.maximum(0.62 - 0.6 * flushed, 0.02) + 0.38 * evicting
        gauge("redis_memory_used_bytes", labels, CACHE_MEMORY * np.minimum(filled, 1) * present)
        keys = np.round(410_000 * np.maximum(1 - 0.97 * flushed, 0.01))
        gauge("redis_db_keys", labels | {"db": "db0"}, keys * present)
        counter(
            "redis_commands_processed_total", labels, rng.poisson(commands) * present, slow=True
        )
        counter(
            "redis_keyspace_hits_total", labels, rng.poisson(commands * hits) * present, slow=True
        )
        counter(
            "redis_keyspace_misses_total",
            labels,
            rng.poisson(commands * (1 - hits)) * present,
            slow=True,
        )
        counter(
            "redis_evicted_keys_total",
            labels,
            rng.poisson(evicting * 400 * self.elapsed) * present,
            slow=True,
        )
        calls = rng.poisson(commands)
        spent = calls * flow.latency[cache.pods[0].name] / 1e6
        counter("redis_commands_total", labels | {"cmd": "get"}, calls * present, slow=True)
        counter(
            "redis_commands_duration_seconds_total",
            labels | {"cmd": "get"},
            spent * present,
            slow=True,
        )
        flushes = np.round(np.diff((flushed > 0.5).astype(float), prepend=0.0).clip(0))
        if flushed.max() > 0:
            counter(
                "redis_commands_total",
                labels | {"cmd": "flushall"},
                flushes * present,
                slow=True,
                is_born_late=True,
            )

    def write_kafka(self, queue: Service) -> None:
        """A queue's topic as kafka_exporter sees it."""
        counter, gauge, flow = self.exposition.counter, self.exposition.gauge, self.flow
        (worker,) = self.system.of_role("worker")
        labels, present = self.store_labels(queue), self.watched(queue)
        is_hot = flow.lever("hot", queue.name).max() > 0
        produced, taken = (
            flow.rate[queue.name] * self.elapsed,
            flow.rate[worker.name] * self.elapsed,
        )
        for partition in range(PARTITIONS):
            topic = labels | {"topic": queue.name, "partition": str(partition)}
            share = np.full(produced.size, 1 / PARTITIONS)
            waiting = flow.lag[queue.name] / PARTITIONS
            if is_hot:
                hot = flow.lever("hot", queue.name)
                share = share * (1 - hot) + hot * (0.82 if partition == 2 else 0.06)
                waiting = np.where(
                    hot > 0.5, flow.lag[queue.name] if partition == 2 else 3.0, waiting
                )
            group = topic | {"consumergroup": worker.name}
            lag = np.round(waiting + 4 * flow.noise(0.3, "lag", str(partition)))
            gauge("kafka_consumergroup_lag", group, lag * present)
            counter(
                "kafka_topic_partition_current_offset",
                topic,
                np.round(produced * share) * present,
                slow=True,
            )
            counter(
                "kafka_consumergroup_current_offset",
                group,
                np.round(taken * share) * present,
                slow=True,
            )
        gauge(
            "kafka_consumergroup_members",
            labels | {"consumergroup": worker.name},
            len(worker.pods) * present,
        )

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
                "job": "coredns", "instance": f"10.244.0.{4 + number}:9153", "server": "dns://:53",
                "pod": f"coredns-7db6d8ff4d-{'xk2lp' if number else 'p9wqz'}",
                "namespace": "kube-system",
            }  # fmt: skip
            if self.system.label_style == "operator":
                labels |= {"service": "coredns", "container": "coredns"}
            rng = generator_for(self.system.seed, "dns", str(number))
            counter = self.exposition.counter
            answers = {
                "NOERROR": 0.8 * (1 - failed),
                "NXDOMAIN": 0.2 * (1 - failed),
                "SERVFAIL": failed + 0.0002,
            }
            for code, share in answers.items():
                count = rng.poisson(total * share * self.elapsed / 2).astype(float)
                by_code = labels | {"rcode": code, "zone": "."}
                name = "coredns_dns_responses_total"
                counter(name, by_code, count, slow=True, is_born_late=True)
            requests = rng.poisson(total * self.elapsed / 2).astype(float)
            counter("coredns_dns_requests_total", labels | {"zone": "."}, requests, slow=True)
            buckets = {
                "0.001": 0.9 * (1 - failed),
                "0.064": 0.99 - 0.8 * failed,
                "2.048": 1 - failed,
                "+Inf": np.ones(failed.size),
            }
            name = "coredns_dns_request_duration_seconds_bucket"
            for le, share in buckets.items():
                counter(name, labels | {"zone": ".", "le": le}, requests * share, slow=True)

    def write_certificates(self) -> None:
        """cert-manager: when each service's certificate ends."""
        for service in self.system.of_role("front", "app"):
            rng = generator_for(self.system.seed, "certificate", service.name)
            expired = self.flow.lever("expired", service.name)
            left_s = float(rng.integers(15, 80)) * 86_400
            if expired.max() > 0:
                left_s = float(self.seconds[np.argmax(expired > 0)])
            labels = {
                "job": "cert-manager",
                "instance": "10.244.0.40:9402",
                "name": f"{service.name}-tls",
                "exported_namespace": self.system.namespace,
            }
            at = self.exposition.end + round(left_s)
            self.exposition.gauge(
                "certmanager_certificate_expiration_timestamp_seconds", labels, float(at)
            )

    def write_up(self) -> None:
        """Whether each target could be scraped."""
        for store in self.system.of_role(*MONITORED):
            up = np.nan_to_num(self.watched(store))
            self.exposition.gauge("up", self.store_labels(store), up)
        for service in self.system.of_role(*APPS):
            for pod in service.pods:
                labels = {
                    "job": service.name,
                    "instance": f"{pod.ip}:8080",
                    "namespace": self.system.namespace,
                }
                self.exposition.gauge(
                    "up", labels, np.where(self.flow.alive[pod.name], 1.0, np.nan)
                )
