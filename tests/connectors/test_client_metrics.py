"""Calls as the callers' own metrics count them, from expositions of real client libraries that a
real Prometheus holds: who is called, and how the calls go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from faultline.analysis.vocabulary import Alert, Diagnosis
from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from tests.connectors.collected_cases import calls_in, diagnosed_request
from tests.connectors.conftest import (
    ALERT_AT,
    ONSET,
    OpenMetrics,
    RunningPrometheus,
    request_for,
    running_prometheus,
)

EVERY_S = 30
IN_SHOP = ".shop.svc.cluster.local"


@dataclass(frozen=True)
class Family:
    """One family of a client: a histogram where it has bounds, else a summary, or a counter."""

    name: str
    labels: str
    bounds: tuple[str, ...] = ()
    suffix: str = "_count"
    status: tuple[str, str, str] | None = None
    """The label, and its values of success and failure."""
    slow: bool = False


SECONDS = ("0.05", "0.1", "1", "5", "+Inf")
MILLISECONDS = ("50", "100", "1000", "5000", "+Inf")
HTTP = "http_response_status_code"
TARGET = 'namespace="shop",service="{0}",job="{0}",pod="{0}-1",instance="10.0.0.9:8080"'


def target(service: str) -> str:
    return TARGET.format(service)


CLIENTS: Sequence[tuple[str, str, Family]] = (
    # OpenTelemetry, stable conventions: HTTP, RPC and databases.
    (
        "checkout", "payments",
        Family(
            "http_client_request_duration_seconds",
            f'{target("checkout")},http_request_method="POST",'
            f'server_address="payments{IN_SHOP}",server_port="8080"',
            SECONDS, status=(HTTP, "200", "503"), slow=True,
        ),
    ),
    (
        "checkout", "orders-db",
        Family(
            "db_client_operation_duration_seconds",
            f'{target("checkout")},db_system_name="postgresql",server_address="orders-db:5432"',
            SECONDS,
        ),
    ),
    (
        "quotes", "rates",
        Family(
            "rpc_client_call_duration_seconds",
            f'{target("quotes")},rpc_system_name="grpc",rpc_method="acme.v1.Rates/Get"',
            SECONDS, status=("rpc_response_status_code", "OK", "UNAVAILABLE"),
        ),
    ),
    # The same before they were stable, with and without the unit.
    (
        "cart", "stock",
        Family(
            "http_client_duration_milliseconds",
            'job="shop/cart",instance="cart-1",http_method="GET",net_peer_name="stock",'
            'net_peer_port="8080"',
            MILLISECONDS, status=("http_status_code", "200", "500"),
        ),
    ),
    (
        "cart", "rates",
        Family(
            "rpc_client_duration",
            'job="shop/cart",instance="cart-1",rpc_system="grpc",rpc_service="acme.rates.v1.Rates",'
            'rpc_method="Get"',
            MILLISECONDS, status=("rpc_grpc_status_code", "0", "14"),
        ),
    ),
    # Spring: Micrometer names the host; timers are summaries by default.
    (
        "search", "stock",
        Family(
            "http_client_requests_seconds",
            f'{target("search")},client_name="stock{IN_SHOP}",method="GET",uri="/items/{{id}}",'
            'outcome="SUCCESS",error="none",exception="none"',
            status=("status", "200", "CLIENT_ERROR"), slow=True,
        ),
    ),
    (
        "search", "search-mongo",
        Family(
            "mongodb_driver_commands_seconds",
            f'{target("search")},server_address="search-mongo:27017",command="find",'
            'cluster_id="62dbd0067c80"',
            status=("status", "SUCCESS", "FAILED"),
        ),
    ),
    (
        "search", "stock-cache",
        Family(
            "lettuce_command_completion_seconds",
            f'{target("search")},command="GET",local="any",remote="stock-cache/10.0.5.6:6379"',
        ),
    ),
    # gRPC's middleware names the interface alone.
    (
        "web", "checkout",
        Family(
            "grpc_client_handled_total",
            f'{target("web")},grpc_type="unary",grpc_service="acme.v1.CheckoutService",'
            'grpc_method="Place"',
            suffix="", status=("grpc_code", "OK", "Unavailable"),
        ),
    ),
    (
        "web", "checkout",
        Family(
            "grpc_client_handling_seconds",
            f'{target("web")},grpc_type="unary",grpc_service="acme.v1.CheckoutService",'
            'grpc_method="Place"',
            SECONDS,
        ),
    ),
    (
        "web", "search",
        Family(
            "grpc_client_attempt_duration_seconds",
            f'{target("web")},grpc_method="acme.v1.Find/Get",grpc_target="dns:///search:8080"',
            SECONDS, status=("grpc_status", "OK", "UNAVAILABLE"),
        ),
    ),
    # Names that nobody has standardised.
    (
        "web", "api.maps.example",
        Family(
            "acme_outbound_requests_total",
            f'{target("web")},target_host="api.maps.example",method="GET"',
            suffix="", status=("code", "200", "502"),
        ),
    ),
    (
        "quotes", "ledger",
        Family(
            "shop_upstream_call_latency_seconds",
            f'{target("quotes")},peer_service="ledger"',
            SECONDS, status=("code", "200", "504"),
        ),
    ),
    # Addresses that only the cluster explains.
    (
        "web", "stock",
        Family(
            "acme_downstream_requests_total",
            f'{target("web")},server_address="10.96.0.17",server_port="8080"',
            suffix="", status=("code", "200", "502"),
        ),
    ),
    (
        "quotes", "payments.staging",
        Family(
            "http_client_request_duration_seconds",
            f'{target("quotes")},http_request_method="GET",'
            'server_address="payments.staging.svc.cluster.local"',
            SECONDS, status=(HTTP, "200", "503"),
        ),
    ),
)  # fmt: skip
NO_CLIENTS = (
    # The server's own host, the caller's own pool, a size, what the API server is asked.
    ("http_server_request_duration_seconds_count", f'{target("stock")},server_address="shop.acme"'),
    ("http_client_request_body_size_bytes_count", f'{target("web")},server_address="sizes"'),
    ("redis_connected_clients", f'{target("web")},server_address="sizes"'),
    ("rest_client_requests_total", f'{target("web")},host="10.96.0.1:443",method="GET",code="200"'),
    ("http_client_requests_total", f'{target("web")},uri="/items",host="web-7f5c"'),
)
SERVICES = ("web", "checkout", "payments", "cart", "stock", "search", "quotes", "rates", "ledger",
            "orders-db", "search-mongo", "stock-cache")  # fmt: skip


def exposition() -> str:
    """Three hours of five services' clients; payments is slow and fails for its caller from the
    onset on, and answers as ever by its own word."""
    series = OpenMetrics()
    end = int(ALERT_AT.timestamp())
    for t in range(end - 3 * 3600, end + 31, EVERY_S):
        n = (t - end) // EVERY_S + 400
        sick = max(0, (t - int(ONSET.timestamp())) // EVERY_S)
        for _, _, family in CLIENTS:
            write(series, family, n, sick, t)
        for name, labels in NO_CLIENTS:
            series.add(name, "unknown", labels, 30 * n, t)
        for service in SERVICES:
            labels = f'{target(service)},code="200"'
            series.add("http_requests_total", "counter", labels, 300 * n, t)
            for le, count in (("0.05", 285), ("0.1", 297), ("1", 300), ("+Inf", 300)):
                labels = f'{target(service)},le="{le}"'
                series.add("http_request_duration_seconds_bucket", "unknown", labels, count * n, t)
            series.add("up", "gauge", target(service), 1, t)
        staging = target("payments").replace('namespace="shop"', 'namespace="staging"')
        series.add("up", "gauge", staging, 1, t)
        series.add(
            "kube_service_info", "gauge",
            'namespace="shop",service="kube-state-metrics",exported_service="stock",'
            'cluster_ip="10.96.0.17"', 1, t,
        )  # fmt: skip
    return series.finished()


def write(series: OpenMetrics, family: Family, n: int, sick: int, t: int) -> None:
    """One scrape of a family: 60 calls each, of which a slow one's half fails and waits."""
    bad = 30 * sick if family.slow else 0
    good = 60 * n - bad
    counts = [("", good + bad)]
    if family.status is not None:
        label, well, failed = family.status
        counts = [(f',{label}="{well}"', good), (f',{label}="{failed}"', bad)]
    for status, count in counts:
        labels = family.labels + status
        is_bad = count == bad and bad > 0 and status != ""
        if not family.suffix:
            series.add(family.name, "counter", labels, count, t)
            continue
        series.add(f"{family.name}_count", "unknown", labels, count, t)
        ms = "milliseconds" in family.name or family.name == "rpc_client_duration"
        total = count * (2.0 if is_bad else 0.02) * (1000 if ms else 1)
        series.add(f"{family.name}_sum", "unknown", labels, round(total, 3), t)
        for place, le in enumerate(family.bounds):
            below = 0 if is_bad and place < 3 else count
            series.add(f"{family.name}_bucket", "unknown", f'{labels},le="{le}"', below, t)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPrometheus]:
    with running_prometheus(tmp_path_factory.mktemp("clients"), exposition()) as running:
        yield running


ALERT = Alert(
    source="test",
    title="checkout: p99 latency",
    started_at=ALERT_AT,
    service="checkout",
    labels={"namespace": "shop"},
)


@pytest.fixture(scope="module")
def answered(
    prometheus: RunningPrometheus, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Collected, Diagnosis]:
    folder = tmp_path_factory.mktemp("case")
    request = request_for(folder, services=("checkout",), alert=ALERT)
    connector = PrometheusConnector(prometheus.url)
    collected = asyncio.run(connector.collect(request))
    return collected, diagnosed_request(folder, request, connector)


@pytest.mark.parametrize(
    ("caller", "callee", "family"), CLIENTS, ids=[family.name for *_, family in CLIENTS]
)
def test_a_client_s_metric_names_whom_it_calls(
    answered: tuple[Collected, Diagnosis], caller: str, callee: str, family: Family
) -> None:
    assert (caller, callee) in calls_in(answered[0], "client_metrics"), family.name


def test_nothing_else_is_a_call(answered: tuple[Collected, Diagnosis]) -> None:
    expected = {(caller, callee) for caller, callee, _ in CLIENTS}
    assert set(calls_in(answered[0], "client_metrics")) == expected


def test_a_callee_known_by_its_interface_is_less_certain(
    answered: tuple[Collected, Diagnosis],
) -> None:
    table = answered[0].tables["topology"].filter(pl.col("caller") == "web")
    certainty = dict(table.select("callee", "certainty").iter_rows())
    assert certainty["checkout"] == 0.6
    assert certainty["search"] is None


def figures(collected: Collected, caller: str, callee: str) -> dict[str, float]:
    """The latest value of each figure of a pair."""
    labels = f'{{"peer":"{callee}"}}'
    rows = collected.tables["metrics"].filter(
        pl.col("service") == caller, pl.col("labels") == labels
    )
    return dict(rows.sort("time").group_by("signal").agg(pl.col("value").last()).iter_rows())


@pytest.mark.parametrize(
    ("caller", "callee", "latency", "ms"),
    [
        ("checkout", "payments", "client_latency_p99", 4900),
        ("search", "stock", "client_latency_mean", 1010),
        ("cart", "stock", "client_latency_p50", 25),
        ("cart", "rates", "client_latency_p50", 25),
    ],
)
def test_how_the_calls_go_is_measured_where_they_are_made(
    answered: tuple[Collected, Diagnosis], caller: str, callee: str, latency: str, ms: float
) -> None:
    measured = figures(answered[0], caller, callee)
    assert measured["client_request_rate"] == pytest.approx(2, rel=0.05)
    assert measured["client_error_ratio"] == pytest.approx(0.5 if ms > 1000 else 0, abs=0.02)
    assert measured[latency] == pytest.approx(ms, rel=0.1)


def test_payments_is_accused_by_its_caller_alone(answered: tuple[Collected, Diagnosis]) -> None:
    first = answered[1].causes[0]
    assert first.subject == "payments"


def test_whom_the_alerting_service_calls_is_known_before_anything_is_collected(
    prometheus: RunningPrometheus,
) -> None:
    request = request_for(Path(), services=("checkout",), alert=ALERT)
    callees = asyncio.run(PrometheusConnector(prometheus.url).callees_of(ALERT, request.scope))
    assert callees == ("orders-db", "payments")
