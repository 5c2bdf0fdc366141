"""Changes that a real Prometheus shows by kube-state-metrics alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Alert, Scope, Window
from faultline.connectors.shared.contract.base import Collected, Request, collect_from
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from tests.connectors.conftest import ALERT_AT, OpenMetrics, running_prometheus

INTERVAL_S = 30
END = int(ALERT_AT.timestamp()) + 30
ROLLED_S = 600
"""Seconds before the alert at which everything below changes."""
TARGET = 'job="kube-state-metrics",instance="10.244.0.31:8080",namespace="monitoring"'
IN_SHOP = f'{TARGET},exported_namespace="shop"'


def samples() -> str:
    """Four hours of requests of two services, and of kube-state-metrics as it is scraped without
    `honor_labels`."""
    series = OpenMetrics()
    for t in range(END - 4 * 3600, END, INTERVAL_S):
        changed = t >= END - ROLLED_S
        for service in ("cart", "checkout"):
            labels = f'service="{service}",code="200"'
            series.add("http_requests_total", "counter", labels, 5 * (t - END + 4 * 3600), t)
        add_cart(series, t, changed=changed)
        workload = f'{IN_SHOP},statefulset="postgres"'
        series.add("kube_statefulset_replicas", "gauge", workload, 0 if changed else 1, t)
        generation = "kube_statefulset_metadata_generation"
        series.add(generation, "gauge", workload, 4 if changed else 3, t)
        add_schedule(series, t)
        add_configuration(series, t, changed=changed)
    return series.finished()


def add_schedule(series: OpenMetrics, t: int) -> None:
    """A Deployment that a CronJob scales, and another CronJob that ran at that minute."""
    done = t >= END - ROLLED_S - 3600
    worker = f'{IN_SHOP},deployment="worker"'
    series.add("kube_deployment_spec_replicas", "gauge", worker, 1 if done else 2, t)
    for job in ("nightly-scale-down", "report"):
        ran = END - ROLLED_S - 3610 - (0 if done else 86_400)
        labels = f'{IN_SHOP},cronjob="{job}"'
        series.add("kube_cronjob_status_last_schedule_time", "gauge", labels, ran, t)


def add_cart(series: OpenMetrics, t: int, *, changed: bool) -> None:
    """A Deployment, its pods, and its autoscaler."""
    hashed, version = ("66b7d9c4f", "2.2.0") if changed else ("5f6d7c8b9", "2.1.0")
    pod = f'{IN_SHOP},exported_pod="cart-{hashed}-x2x4z",pod="kube-state-metrics-0"'
    image = f'image="sha256:abc",image_spec="reg.local:5000/shop/cart:{version}"'
    container = f'{pod},exported_container="app",container="kube-state-metrics",{image}'
    series.add("kube_pod_container_info", "gauge", container, 1, t)
    owner = f'created_by_kind="ReplicaSet",created_by_name="cart-{hashed}",node="node-1"'
    series.add("kube_pod_info", "gauge", f"{pod},{owner}", 1, t)
    made = END - ROLLED_S - 7 if changed else END - 90_000
    series.add("kube_pod_created", "gauge", pod, made, t)
    workload = f'{IN_SHOP},deployment="cart"'
    generation = "kube_deployment_metadata_generation"
    series.add(generation, "gauge", workload, 8 if changed else 7, t)
    target = 'horizontalpodautoscaler="checkout-hpa",scaletargetref_kind="Deployment"'
    target += ',scaletargetref_name="checkout"'
    series.add("kube_horizontalpodautoscaler_info", "gauge", f"{IN_SHOP},{target}", 1, t)
    replicas = "kube_deployment_spec_replicas"
    series.add(replicas, "gauge", f'{IN_SHOP},deployment="checkout"', 5 if changed else 3, t)
    series.add(replicas, "gauge", workload, 3, t)


def add_configuration(series: OpenMetrics, t: int, *, changed: bool) -> None:
    """Config maps: one that is written, and a lease that is written all the time."""
    metric = "kube_configmap_metadata_resource_version"
    written = 92_531 if changed else 88_120
    series.add(metric, "gauge", f'{IN_SHOP},configmap="checkout-config"', written, t)
    series.add(metric, "gauge", f'{IN_SHOP},configmap="cart-leader"', t, t)


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collected]:
    folder = tmp_path_factory.mktemp("changes")
    start = ALERT_AT - timedelta(minutes=30)
    alert = Alert(
        source="alertmanager", title="checkout fails", started_at=ALERT_AT, service="checkout"
    )
    scope = Scope(
        incident=Window(start=start, end=ALERT_AT + timedelta(seconds=30)),
        baseline=(Window(start=start - timedelta(hours=2), end=start),),
        services=("checkout", "cart"),
    )
    with running_prometheus(folder, samples()) as prometheus:
        connector = PrometheusConnector(prometheus.url)
        yield asyncio.run(collect_from(connector, Request(alert, scope, Path(folder))))


def rows_of(collection: Collected, kind: str) -> pl.DataFrame:
    return conform(collection.tables["changes"], "changes", "changes").filter(kind=kind)


def test_a_rollout_shows_by_its_images(collection: Collected) -> None:
    [row] = rows_of(collection, "deploy").to_dicts()
    assert row["service"] == "cart"
    assert (row["before"], row["after"]) == ("2.1.0", "2.2.0")
    assert row["title"] == "Rollout of cart: image cart:2.1.0 -> cart:2.2.0 (deployment shop/cart)"
    # The generation tells of it half a scrape late, the pod's creation to the second.
    assert row["time"].timestamp() == END - ROLLED_S - 7 or row["time"].timestamp() < END - ROLLED_S


def test_replicas_show_with_both_numbers(collection: Collected) -> None:
    rows = {row["service"]: row for row in rows_of(collection, "scale").to_dicts()}
    assert (rows["postgres"]["before"], rows["postgres"]["after"]) == ("1", "0")
    assert (rows["checkout"]["before"], rows["checkout"]["after"]) == ("3", "5")
    assert rows["checkout"]["restored_by"] == "HorizontalPodAutoscaler checkout-hpa"
    assert rows["postgres"]["restored_by"] is None
    assert rows["worker"]["restored_by"] == "CronJob nightly-scale-down"
    at = rows["postgres"]["time"].timestamp()
    assert abs(at - (END - ROLLED_S)) <= INTERVAL_S


def test_what_was_scaled_to_zero_is_a_fact(collection: Collected) -> None:
    states = conform(collection.tables["states"], "states", "states").filter(fact="scaled_to_zero")
    [row] = states.to_dicts()
    assert (row["kind"], row["namespace"], row["name"]) == ("StatefulSet", "shop", "postgres")
    assert (row["service"], row["field"], row["value"]) == ("postgres", "spec.replicas", "0")
    [change] = rows_of(collection, "scale").filter(service="postgres").to_dicts()
    assert row["since"] == change["time"]


def test_a_written_config_map_is_a_change_and_a_lease_is_none(collection: Collected) -> None:
    [row] = rows_of(collection, "config").to_dicts()
    assert (row["service"], row["title"]) == ("checkout", "ConfigMap shop/checkout-config written")


def test_each_query_is_evidence(collection: Collected) -> None:
    queries = [item.query for item in collection.items if item.kind == "changes"]
    assert any("kube_pod_container_info" in query for query in queries)
    assert collection.missing == () or all(gap.kind != "changes" for gap in collection.missing)


def test_processes_that_all_started_again_are_restarted_and_not_deployed(tmp_path: Path) -> None:
    series = OpenMetrics()
    for t in range(END - 4 * 3600, END, INTERVAL_S):
        for number in range(2):
            labels = f'job="cart",instance="10.0.0.{number}:8080"'
            began = END - ROLLED_S + 9 * number if t >= END - ROLLED_S + 20 else END - 90_000
            series.add("process_start_time_seconds", "gauge", labels, began, t)
            sent = 5 * (t - END + 4 * 3600)
            series.add("http_requests_total", "counter", f'{labels},code="200"', sent, t)
    start = ALERT_AT - timedelta(minutes=30)
    alert = Alert(source="alertmanager", title="cart fails", started_at=ALERT_AT, service="cart")
    scope = Scope(
        incident=Window(start=start, end=ALERT_AT + timedelta(seconds=30)),
        baseline=(Window(start=start - timedelta(hours=2), end=start),),
        services=("cart",),
    )
    with running_prometheus(tmp_path, series.finished()) as prometheus:
        connector = PrometheusConnector(prometheus.url)
        restarts = asyncio.run(collect_from(connector, Request(alert, scope, tmp_path)))
    [row] = rows_of(restarts, "restart").to_dicts()
    assert row["title"] == "All 2 processes of cart were started again"
    assert rows_of(restarts, "deploy").is_empty()
