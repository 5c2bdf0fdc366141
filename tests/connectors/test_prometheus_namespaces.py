"""A real Prometheus knows services of one name in two namespaces: the alert is answered with its
own namespace's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Alert, Scope, Window
from faultline.connectors.shared.contract.base import Request, collect_from
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from faultline.connectors.vendors.prometheus.promql import PromQuery
from faultline.connectors.vendors.prometheus.series import (
    PrometheusSelection,
    PrometheusSeries,
    keep_alerts,
)
from tests.connectors.conftest import (
    ALERT_AT,
    OpenMetrics,
    RunningPrometheus,
    running_prometheus,
)

INTERVAL_S = 30
END = int(ALERT_AT.timestamp()) + 30
PAYMENTS = {"prod": 0.0, "staging": 0.3}
"""Share of failed requests by namespace."""
ELSEWHERE = "billing"
"""It runs in a third namespace alone."""


def samples() -> str:
    """Three hours of requests, and of containers; a rollout adds a second pod ten minutes before
    the end."""
    series = OpenMetrics()
    begin = END - 3 * 3600
    for t in range(begin, END, INTERVAL_S):
        for space, share in PAYMENTS.items():
            add_requests(series, t, "payments", space, 10 * (t - begin), share)
            labels = f'namespace="{space}",pod="payments-1",container="payments"'
            memory = 4e8 if space == "prod" else 9e8
            series.add("container_memory_working_set_bytes", "gauge", labels, memory, t)
            if t > END - 600:
                surge = labels.replace("payments-1", "payments-2")
                series.add("container_memory_working_set_bytes", "gauge", surge, memory - 1e8, t)
        add_requests(series, t, ELSEWHERE, "shared", 3 * (t - begin), 0.0)
    return series.finished()


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPrometheus]:
    """Series whose only label is the scrape's job, `namespace/name`."""
    series = OpenMetrics()
    begin = END - 3 * 3600
    for t in range(begin, END, INTERVAL_S):
        for job, share in (("prod/payments", 0.0), ("staging/payments", 0.3), ("prod/cart", 0.1)):
            total = 10.0 * (t - begin)
            for code, count in (("200", total * (1 - share)), ("500", total * share)):
                labels = f'job="{job}",code="{code}"'
                series.add("http_requests_total", "counter", labels, count, t)
    with running_prometheus(tmp_path_factory.mktemp("jobs"), series.finished()) as prometheus:
        yield prometheus


def add_requests(
    series: OpenMetrics, t: int, service: str, space: str, total: float, share: float
) -> None:
    labels = f'service="{service}",namespace="{space}",pod="{service}-1"'
    for code, count in (("200", total * (1 - share)), ("500", total * share)):
        series.add("http_requests_total", "counter", f'{labels},code="{code}"', count, t)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPrometheus]:
    with running_prometheus(tmp_path_factory.mktemp("namespaces"), samples()) as prometheus:
        yield prometheus


def metrics_for(server: RunningPrometheus, labels: dict[str, str]) -> pl.DataFrame:
    start = ALERT_AT - timedelta(minutes=30)
    alert = Alert(
        source="alertmanager",
        title="payments fails",
        started_at=ALERT_AT,
        service="payments",
        labels=labels,
    )
    scope = Scope(
        incident=Window(start=start, end=ALERT_AT),
        baseline=(Window(start=start - timedelta(hours=1), end=start),),
        services=("payments",),
    )
    connector = PrometheusConnector(server.url)
    collected = asyncio.run(collect_from(connector, Request(alert, scope, Path())))
    return conform(collected.tables["metrics"], "metrics", "metrics")


def largest(metrics: pl.DataFrame, service: str, signal: str) -> float:
    rows = metrics.filter(pl.col("labels").is_null(), service=service, signal=signal)
    value = rows["value"].max()
    assert isinstance(value, float)
    return value


@pytest.mark.parametrize(("space", "share"), [("prod", 0.0), ("staging", 0.3)])
def test_the_alerts_namespace_alone_is_read(
    server: RunningPrometheus, space: str, share: float
) -> None:
    metrics = metrics_for(server, {"namespace": space})
    assert largest(metrics, "payments", "error_ratio") == pytest.approx(share, abs=0.001)
    assert largest(metrics, "payments", "request_rate") == pytest.approx(10, rel=0.02)
    memory = largest(metrics, "payments", "memory_bytes")
    assert memory == (4e8 if space == "prod" else 9e8)


def test_pods_of_a_rollout_are_no_leak_of_memory(server: RunningPrometheus) -> None:
    metrics = metrics_for(server, {"namespace": "prod"})
    rows = metrics.filter(pl.col("labels").is_null(), service="payments", signal="memory_bytes")
    assert set(rows["value"]) == {4e8}


def test_what_runs_elsewhere_alone_is_kept(server: RunningPrometheus) -> None:
    metrics = metrics_for(server, {"namespace": "prod"})
    assert largest(metrics, ELSEWHERE, "request_rate") == pytest.approx(3, rel=0.02)


def test_an_exporters_namespace_hides_nothing(server: RunningPrometheus) -> None:
    metrics = metrics_for(server, {"namespace": "monitoring"})
    rows = metrics.filter(service="payments", signal="error_ratio")
    assert {'{"namespace":"prod"}', '{"namespace":"staging"}'} <= set(rows["labels"])
    assert rows["labels"].null_count() == 0


@pytest.mark.parametrize(("job", "share"), [("prod/payments", 0.0), ("staging/payments", 0.3)])
def test_a_scrape_jobs_namespace_is_no_part_of_the_services_name(
    jobs: RunningPrometheus, job: str, share: float
) -> None:
    metrics = metrics_for(jobs, {"job": job})
    assert set(metrics["service"]) == {"payments", "cart"}
    assert largest(metrics, "payments", "error_ratio") == pytest.approx(share, abs=0.001)


def test_scrape_jobs_of_one_name_are_not_mixed_where_the_alert_names_none(
    jobs: RunningPrometheus,
) -> None:
    rows = metrics_for(jobs, {}).filter(service="payments", signal="error_ratio")
    assert set(rows["labels"]) == {'{"namespace":"prod"}', '{"namespace":"staging"}'}


def test_alerts_of_another_place_are_no_monitors_of_this_one() -> None:
    def firing(**labels: str) -> PrometheusSeries:
        return PrometheusSeries({"alertname": "Slow", **labels}, [(1.0, "1")])

    own = firing(service="payments", namespace="prod")
    callee = firing(service="billing", namespace="shared")
    rows = [
        own,
        callee,
        firing(service="payments", namespace="staging"),
        firing(service="payments", namespace="prod", cluster="us"),
        firing(service="cart", namespace="staging"),
        firing(service="cart", namespace="prod"),
    ]
    alerts = PrometheusSelection(PromQuery("alerts", None, "ALERTS"), rows)
    labels = {"namespace": "prod", "cluster": "eu"}
    alert = Alert(source="x", title="t", started_at=ALERT_AT, service="payments", labels=labels)
    keep_alerts(alerts, alert, "service")
    # What runs in one namespace alone may be called from another.
    assert alerts.series == [own, callee, rows[-1]]
