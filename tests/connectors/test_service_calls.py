"""Who calls whom, from the metrics of service graphs, meshes, proxies and ingresses, asked of a
real Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultline.analysis.case.addresses import AddressBook
from faultline.analysis.vocabulary import Alert
from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.vendors.prometheus.call_metrics import FIXED, CallMetric
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from faultline.connectors.vendors.prometheus.service_calls import calls_of
from tests.connectors.collected_cases import calls_in
from tests.connectors.conftest import (
    ALERT_AT,
    OpenMetrics,
    RunningPrometheus,
    request_for,
    running_prometheus,
)

EVERY_S = 60
OUTBOUND = "outbound|7070||cart.shop.svc.cluster.local"
SERIES = (
    ("traces_service_graph_request_total", 'client="web",server="checkout",connection_type=""'),
    ("traces_service_graph_request_total", 'client="user",server="web",connection_type=""'),
    (
        "kafka_consumergroup_current_offset",
        'job="kafka-exporter",consumergroup="mailer",topic="orders.placed.v1",partition="0"',
    ),
    (
        "kafka_consumergroup_current_offset",
        'job="kafka-exporter",consumergroup="mailer",topic="__consumer_offsets",partition="3"',
    ),
    (
        "messaging_client_sent_messages_total",
        'service_name="checkout",messaging_destination_name="orders.placed.v1"',
    ),
    (
        "messaging_client_consumed_messages_total",
        'service_name="billing",messaging_destination_name="orders.placed.v1"',
    ),
    (
        "kafka_producer_topic_record_send_total",
        'service="legacy",client_id="producer-1",topic="invoices"',
    ),
    (
        "traces_service_graph_request_total",
        'client="checkout",server="orders-db:5432",connection_type="database"',
    ),
    ("traces_service_graph_request_total", 'client="checkout",server="10.1.2.3:80"'),
    (
        "istio_requests_total",
        'reporter="source",source_workload="checkout-v2",source_canonical_service="checkout",'
        'destination_service_name="payments",destination_workload="payments-v1"',
    ),
    (
        "istio_requests_total",
        'reporter="destination",source_workload="unknown",source_canonical_service="unknown",'
        'destination_service_name="payments",destination_workload="payments-v1"',
    ),
    (
        "istio_requests_total",
        'reporter="source",source_workload="checkout-v2",source_canonical_service="checkout",'
        'destination_service_name="PassthroughCluster",destination_workload="unknown"',
    ),
    (
        "response_total",
        'direction="outbound",deployment="emails",dst_deployment="smtp-relay",dst_service="smtp"',
    ),
    ("response_total", 'direction="inbound",deployment="emails"'),
    (
        "request_total",
        'direction="outbound",deployment="emails",dst_deployment="templates",tls="true"',
    ),
    (
        "outbound_http_route_backend_response_statuses_total",
        'deployment="emails",parent_name="users",backend_name="users",backend_namespace="shop",'
        'http_status="200",error=""',
    ),
    (
        "hubble_http_requests_total",
        'reporter="client",source="shop/checkout-6d5f8b9c7d-x2x4z",destination="shop/ledger",'
        'method="GET",protocol="HTTP/1.1",status="200"',
    ),
    (
        "beyla_network_flow_bytes_total",
        'k8s_src_owner_name="checkout",k8s_src_namespace="shop",k8s_dst_owner_name="audit",'
        'k8s_dst_namespace="shop",direction="request"',
    ),
    (
        "beyla_network_flow_bytes_total",
        'k8s_src_owner_name="audit",k8s_src_namespace="shop",k8s_dst_owner_name="checkout",'
        'k8s_dst_namespace="shop",direction="response"',
    ),
    (
        "envoy_cluster_upstream_rq_total",
        'consul_source_service="search",consul_destination_service="index"',
    ),
    ("envoy_cluster_upstream_rq_total", f'app="web",envoy_cluster_name="{OUTBOUND}"'),
    ("envoy_cluster_upstream_rq_total", 'app="web",envoy_cluster_name="payments"'),
    ("envoy_cluster_upstream_rq_total", 'app="web",envoy_cluster_name="xds-grpc"'),
    ("envoy_cluster_upstream_rq_total", 'app="web",envoy_cluster_name="inbound|8080||"'),
    (
        "nginx_ingress_controller_requests",
        'ingress="shop",service="ingress-nginx-metrics",exported_service="web"',
    ),
    ("traefik_service_requests_total", 'service="shop-checkout-8080@kubernetes"'),
    ("traefik_service_requests_total", 'service="payments@docker"'),
    ("traefik_service_requests_total", 'service="dashboard@internal"'),
)
IDLE = ("traces_service_graph_request_total", 'client="web",server="retired"')


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPrometheus]:
    """Two clusters, in the other of which one more call is made."""
    series = OpenMetrics()
    end = int(ALERT_AT.timestamp())
    elsewhere = ("traces_service_graph_request_total", 'client="web",server="us-only"')
    for t in range(end - 3 * 3600, end + 1, EVERY_S):
        for name, labels in SERIES:
            series.add(name, "counter", f'{labels},cluster="prod-eu"', t - end + 11_000, t)
        series.add(IDLE[0], "counter", f'{IDLE[1]},cluster="prod-eu"', 7, t)
        series.add(
            elsewhere[0], "counter", f'{elsewhere[1]},cluster="prod-us"', t - end + 11_000, t
        )
    # OpenMetrics wants a counter's name to end in _total; these are older than that.
    text = series.finished()
    for name in ("nginx_ingress_controller_requests", "kafka_consumergroup_current_offset"):
        text = text.replace(f"# TYPE {name} counter", f"# TYPE {name} unknown")
    with running_prometheus(tmp_path_factory.mktemp("calls"), text) as running:
        yield running


@pytest.fixture(scope="module")
def found(prometheus: RunningPrometheus, tmp_path_factory: pytest.TempPathFactory) -> Collected:
    alert = Alert(
        source="test",
        title="slow",
        started_at=ALERT_AT,
        service="checkout",
        labels={"cluster": "prod-eu"},
    )
    services = ("checkout", "payments")
    request = request_for(tmp_path_factory.mktemp("files"), services=services, alert=alert)
    return asyncio.run(PrometheusConnector(prometheus.url).collect(request))


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("service_graph", [("checkout", "orders-db"), ("web", "checkout")]),
        (
            "mesh",
            [
                ("checkout", "payments"),
                ("emails", "smtp"),
                ("emails", "templates"),
                ("emails", "users"),
                ("search", "index"),
            ],
        ),
        ("network", [("checkout", "audit"), ("checkout", "ledger")]),
        ("proxy", [("web", "cart"), ("web", "payments")]),
        ("broker", [("orders.placed.v1", "mailer")]),
        (
            "client_metrics",
            [
                ("checkout", "orders.placed.v1"),
                ("legacy", "invoices"),
                ("orders.placed.v1", "billing"),
            ],
        ),
        ("ingress", [("ingress-nginx", "web"), ("traefik", "checkout"), ("traefik", "payments")]),
    ],
)
def test_each_metric_tells_of_the_calls_in_the_alert_s_place(
    found: Collected, source: str, calls: list[tuple[str, str]]
) -> None:
    assert calls_in(found, source) == calls


def test_each_query_is_an_item_with_its_link(found: Collected) -> None:
    items = [item for item in found.items if item.kind == "topology"]
    metrics = {name for name, _ in SERIES} - {"envoy_cluster_upstream_rq_total"}
    # Envoy's is asked as Consul labels it, too.
    assert len(items) == len(metrics) + 2
    assert sum(item.rows or 0 for item in items) == found.tables["topology"].height
    for item in items:
        assert 'cluster="prod-eu"' in item.query
        assert item.link
        assert "/graph?g0.expr=" in item.link
    assert not [one for one in found.missing if one.kind == "topology"]


@pytest.mark.parametrize(
    ("service", "callees"),
    [
        ("checkout", ("audit", "ledger", "orders-db", "orders.placed.v1", "payments")),
        ("cart", ()),
        (None, ()),
    ],
)
def test_whom_the_alerting_service_calls_is_told_before_anything_is_collected(
    prometheus: RunningPrometheus, service: str | None, callees: tuple[str, ...]
) -> None:
    labels = {"cluster": "prod-eu"}
    alert = Alert(source="t", title="slow", started_at=ALERT_AT, service=service, labels=labels)
    request = request_for(Path(), services=(service,) if service else (), alert=alert)
    connector = PrometheusConnector(prometheus.url)
    assert asyncio.run(connector.callees_of(alert, request.scope)) == callees


HOSTILE = ("x\x00y", "\u202eevil", "a" * 100_000, "::1", "[fe80::1]:80", "localhost:80", "|||", "@")


def test_names_are_hostile() -> None:
    for metric in FIXED:
        caller, callee = (*metric.callers, ""), metric.callees
        series = [{caller[0]: "web", callee[0]: name} for name in HOSTILE]
        for _, name, _ in calls_of(metric, series, AddressBook({"", "a-b"})):
            assert name.isprintable()
            assert len(name) <= 253


def test_the_longest_known_service_is_meant_by_a_route() -> None:
    [traefik] = (one for one in FIXED if one.callee_is == "route")
    series = [{"service": "shop-cart-api-7070@kubernetescrd"}]
    book = AddressBook({"cart", "cart-api", "art"})
    assert list(calls_of(traefik, series, book)) == [("traefik", "cart-api", None)]
    assert not list(calls_of(traefik, series, AddressBook({"payments"})))


def test_a_counter_that_names_one_side_alone_tells_nothing() -> None:
    metric = CallMetric("x", "mesh", ("client",), ("server",))
    assert not list(calls_of(metric, [{"client": "web"}, {"server": "db"}, {}], AddressBook(())))
