"""Requests under the names that servers, meshes, collectors and proxies give them, as a real
Prometheus stores and answers them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import polars as pl
import promql_parser
import pytest

from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from faultline.connectors.vendors.prometheus.default_queries import DEFAULTS
from faultline.connectors.vendors.prometheus.promql import build
from faultline.connectors.vendors.prometheus.templates import existing
from tests.connectors.conftest import (
    ALERT_AT,
    OpenMetrics,
    request_for,
    running_prometheus,
)
from tests.connectors.remote_write import send_histograms

EVERY_S = 30


@dataclass(frozen=True)
class Exposed:
    """What one kind of instrumentation shows of a service that gets 10 requests a second, of which
    a fifth fail, and that answers all within 100 ms."""

    service: str
    counter: str
    histogram: str
    labels: str
    good: str
    bad: str
    to_ms: int = 1000
    others: str = ""
    """Labels of series that must not be counted."""


OTEL = 'otel_scope_name="http"'
SPAN = 'span_name="GET /",otel="x"'
EXPOSED = (
    Exposed(
        "cart",
        "http_server_request_duration_seconds_count",
        "http_server_request_duration_seconds",
        f'job="shop/cart",instance="a1",{OTEL}',
        'http_response_status_code="200"',
        'http_response_status_code="500"',
    ),
    Exposed(
        "checkout",
        "http_server_duration_milliseconds_count",
        "http_server_duration_milliseconds",
        f'job="otel-collector",exported_job="shop/checkout",{OTEL}',
        'http_status_code="200"',
        'http_status_code="503"',
        to_ms=1,
    ),
    Exposed(
        "payments",
        "traces_span_metrics_calls_total",
        "traces_span_metrics_duration_milliseconds",
        f'service_name="payments",job="otel-collector",{SPAN}',
        'span_kind="SPAN_KIND_SERVER",status_code="STATUS_CODE_UNSET"',
        'span_kind="SPAN_KIND_SERVER",status_code="STATUS_CODE_ERROR"',
        to_ms=1,
        others='span_kind="SPAN_KIND_CLIENT",status_code="STATUS_CODE_ERROR"',
    ),
    Exposed(
        "search",
        "traces_spanmetrics_calls_total",
        "traces_spanmetrics_latency",
        f'service="search",{SPAN}',
        'span_kind="SPAN_KIND_SERVER",status_code="STATUS_CODE_OK"',
        'span_kind="SPAN_KIND_SERVER",status_code="STATUS_CODE_ERROR"',
        others='span_kind="SPAN_KIND_INTERNAL",status_code="STATUS_CODE_OK"',
    ),
    Exposed(
        "orders",
        "istio_requests_total",
        "istio_request_duration_milliseconds",
        'destination_service_name="orders",app="orders",job="envoy-stats"',
        'reporter="destination",response_code="200"',
        'reporter="destination",response_code="503"',
        to_ms=1,
        others='reporter="source",response_code="200"',
    ),
    Exposed(
        "stock",
        "response_total",
        "response_latency_ms",
        'deployment="stock",namespace="shop",job="linkerd-proxy"',
        'direction="inbound",classification="success",status_code="200"',
        'direction="inbound",classification="failure",status_code="500"',
        to_ms=1,
        others='direction="outbound",classification="failure",status_code="500"',
    ),
    Exposed(
        "reviews",
        "envoy_cluster_upstream_rq_xx",
        "envoy_cluster_upstream_rq_time",
        'envoy_cluster_name="outbound|8080||reviews.shop.svc.cluster.local",job="envoy"',
        'envoy_response_code_class="2"',
        'envoy_response_code_class="5"',
        to_ms=1,
    ),
    Exposed(
        "shop-ads",
        "traefik_service_requests_total",
        "traefik_service_request_duration_seconds",
        'service="shop-ads-8080@kubernetes",method="GET",protocol="http",job="traefik"',
        'code="200"',
        'code="502"',
    ),
    Exposed(
        "web",
        "nginx_ingress_controller_requests",
        "nginx_ingress_controller_request_duration_seconds",
        'service="ingress-nginx-controller-metrics",exported_service="web",ingress="web"',
        'status="200"',
        'status="504"',
    ),
)


def samples() -> str:
    series = OpenMetrics()
    first = int((ALERT_AT - timedelta(hours=3)).timestamp())
    for t in range(first, int(ALERT_AT.timestamp()) + 1, EVERY_S):
        for one in EXPOSED:
            for labels, share in ((one.good, 0.8), (one.bad, 0.2), (one.others, 1.0)):
                if labels:
                    _add(series, one, f"{one.labels},{labels}", share * 10 * (t - first), t)
    return series.finished()


def _add(series: OpenMetrics, one: Exposed, labels: str, count: float, t: int) -> None:
    if one.counter.endswith("_count"):
        series.add(one.counter, "unknown", labels, count, t)
    elif one.counter.endswith("_total"):
        series.add(one.counter, "counter", labels, count, t)
    else:
        series.add(one.counter, "gauge", labels, count, t)
    for le, part in (("0.05", 0.0), ("0.1", 1.0), ("+Inf", 1.0)):
        bound = le if le == "+Inf" else f"{float(le) * 1000 / one.to_ms:g}"
        name = f"{one.histogram}_bucket"
        series.add(name, "unknown", f'{labels},le="{bound}"', part * count, t)


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pl.DataFrame]:
    """What the connector brings of all of them, from one server."""
    folder = tmp_path_factory.mktemp("request-metrics")
    with running_prometheus(folder, samples()) as running:
        collected = asyncio.run(PrometheusConnector(running.url).collect(request_for(folder)))
        yield collected.tables["metrics"]


@pytest.mark.parametrize("one", EXPOSED, ids=lambda one: one.counter)
def test_rate_failures_and_latency_are_read(metrics: pl.DataFrame, one: Exposed) -> None:
    own = metrics.filter(pl.col("service") == one.service)
    found = dict(own.group_by("signal").agg(pl.col("value").median()).iter_rows())
    assert found["request_rate"] == pytest.approx(10.0, rel=0.01)
    assert found["error_ratio"] == pytest.approx(0.2, rel=0.01)
    assert found["latency_p99"] == pytest.approx(99.5, rel=0.01)


def test_no_proxy_collector_or_client_is_taken_for_a_service(metrics: pl.DataFrame) -> None:
    assert set(metrics["service"].unique()) == {one.service for one in EXPOSED}


def test_of_services_in_scope_a_part_of_a_label_can_be_the_name() -> None:
    template = next(one for one in DEFAULTS if one.metric == "envoy_cluster_upstream_rq_xx")
    query = build(template, ["envoy_cluster_name"], "service", ["reviews"], None, 60, {})
    assert query is not None
    assert query.narrow
    assert 'envoy_cluster_name=~".*(?:reviews).*"' in query.promql


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pl.DataFrame]:
    """What the connector brings of a server that stores native histograms alone."""
    folder = tmp_path_factory.mktemp("native")
    flags = ["--enable-feature=native-histograms", "--web.enable-remote-write-receiver"]
    first = int((ALERT_AT - timedelta(minutes=40)).timestamp())
    times = range(first, int(ALERT_AT.timestamp()) + 1, EVERY_S)
    name = "http_server_request_duration_seconds"
    sent = []
    for status, rate in (("200", 8), ("500", 2)):
        labels = {
            "__name__": name,
            "service_name": "cart",
            "http_response_status_code": status,
        }
        sent.append((labels, [(t, 1 + rate * (t - first)) for t in times]))
    with running_prometheus(folder, "# EOF\n", flags=flags) as running:
        send_histograms(running.url, sent)
        collected = asyncio.run(PrometheusConnector(running.url).collect(request_for(folder)))
        yield collected.tables["metrics"]


def test_native_histograms_are_read(native: pl.DataFrame) -> None:
    found = dict(native.group_by("signal").agg(pl.col("value").median()).iter_rows())
    assert set(native["service"]) == {"cart"}
    assert found["request_rate"] == pytest.approx(10.0, rel=0.01)
    assert found["error_ratio"] == pytest.approx(0.2, rel=0.01)
    assert 62 < found["latency_p99"] <= 125


@pytest.fixture(scope="module")
def bucketless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pl.DataFrame]:
    """What the connector brings of a summary without quantiles, of a native histogram of which an
    agent kept the bucket +Inf alone, and of a histogram with buckets, all of 40 ms on average."""
    series = OpenMetrics()
    first = int((ALERT_AT - timedelta(hours=3)).timestamp())
    for t in range(first, int(ALERT_AT.timestamp()) + 1, EVERY_S):
        count = 10 * (t - first)
        for name, service in (
            ("http_request_duration_seconds", "quotes"),
            ("http_server_request_duration_seconds", "carts"),
            ("http_request_duration_seconds", "users"),
        ):
            labels = f'service="{service}",status="200"'
            bounds = {"quotes": (), "carts": ("+Inf",), "users": ("0.03", "0.05", "+Inf")}
            for le in bounds[service]:
                part = 0.5 if le == "0.03" else 1.0
                series.add(f"{name}_bucket", "unknown", f'{labels},le="{le}"', part * count, t)
            series.add(f"{name}_sum", "unknown", labels, 0.04 * count, t)
            series.add(f"{name}_count", "unknown", labels, count, t)
    folder = tmp_path_factory.mktemp("bucketless")
    with running_prometheus(folder, series.finished()) as running:
        collected = asyncio.run(PrometheusConnector(running.url).collect(request_for(folder)))
        yield collected.tables["metrics"]


@pytest.mark.parametrize("service", ["quotes", "carts"])
def test_latency_is_a_mean_where_there_are_no_buckets(
    bucketless: pl.DataFrame, service: str
) -> None:
    rows = bucketless.filter((pl.col("service") == service) & pl.col("value").is_not_null())
    assert dict(rows.group_by("signal").agg(pl.col("value").median()).iter_rows()) == {
        "request_rate": pytest.approx(10.0, rel=0.01),
        "error_ratio": 0.0,
        "latency_mean": pytest.approx(40.0, rel=0.01),
    }
    assert rows.filter(pl.col("signal") == "latency_mean")["unit"].unique().to_list() == ["ms"]


def test_percentiles_are_preferred_to_a_mean(bucketless: pl.DataFrame) -> None:
    signals = set(bucketless.filter(pl.col("service") == "users")["signal"])
    assert signals == {"request_rate", "error_ratio", "latency_p50", "latency_p99"}


def test_a_summary_is_not_taken_for_a_native_histogram() -> None:
    name = "http_request_duration_seconds"
    of_summary = existing(DEFAULTS, [name, f"{name}_count", f"{name}_sum"])
    assert not [one for one in of_summary if one.is_native]
    assert [one for one in existing(DEFAULTS, [name]) if one.is_native]


def test_names_with_dots_are_quoted() -> None:
    """Prometheus 3 stores them where OTLP is not translated; no package holds one to test with."""
    labels = ["service.name", "http.response.status_code", "le", "cluster"]
    asked = []
    for template in existing(DEFAULTS, ["http.server.request.duration_bucket"]):
        query = build(template, labels, "service", ["cart"], None, 60, {"cluster": "eu"})
        assert query is not None
        assert query.by == ("service.name",)
        promql_parser.parse(query.promql)
        asked.append(query.promql)
    assert len(asked) == 2
    selector = '{"http.server.request.duration_bucket","service.name"=~".*(?:cart).*",cluster="eu"}'
    assert f'sum by (le, "service.name") (rate({selector}[60s]))' in asked[0]
