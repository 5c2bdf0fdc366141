"""One Prometheus that knows several clusters and environments: an alert in one of them is about
that one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from faultline.analysis.vocabulary import Alert
from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from tests.connectors.conftest import (
    ALERT_AT,
    OpenMetrics,
    RunningPrometheus,
    request_for,
    running_prometheus,
)

EVERY_S = 30
ERRORS = {"prod-eu": 0.2, "prod-us": 0.0, "staging": 0.9}
RATES = {"prod-eu": 10, "prod-us": 90, "staging": 10}


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPrometheus]:
    """checkout in three clusters, one of them staging; ledger only in one."""
    series = OpenMetrics()
    end = int(ALERT_AT.timestamp()) + 30
    for cluster, errors in ERRORS.items():
        place = f'cluster="{cluster}",env="{"staging" if cluster == "staging" else "prod"}"'
        services = ["checkout", "ledger"] if cluster == "prod-us" else ["checkout"]
        for service in services:
            for status, share in (("200", 1 - errors), ("500", errors)):
                labels = f'service="{service}",status="{status}",{place}'
                rate = RATES[cluster] * share
                for t in range(end - 3 * 3600, end, EVERY_S):
                    count = int((t - end + 3 * 3600) * rate)
                    series.add("http_requests_total", "counter", labels, count, t)
    with running_prometheus(tmp_path_factory.mktemp("clusters"), series.finished()) as running:
        yield running


def collected(clusters: RunningPrometheus, folder: Path, **labels: str) -> Collected:
    alert = Alert(
        source="test", title="errors", started_at=ALERT_AT, service="checkout", labels=labels
    )
    request = request_for(folder, services=("checkout", "ledger", "ghost"), alert=alert)
    return asyncio.run(PrometheusConnector(clusters.url).collect(request))


def level(found: Collected, service: str, signal: str) -> float | None:
    rows = found.tables["metrics"].filter(pl.col("service") == service, pl.col("signal") == signal)
    middle = rows["value"].median()
    assert middle is None or isinstance(middle, float)
    return middle


def test_only_the_alert_s_cluster_is_added_up(clusters: RunningPrometheus, tmp_path: Path) -> None:
    found = collected(clusters, tmp_path, cluster="prod-eu")
    assert level(found, "checkout", "error_ratio") == pytest.approx(0.2, abs=0.01)
    assert level(found, "checkout", "request_rate") == pytest.approx(10, rel=0.02)


def test_staging_is_not_mixed_with_production(clusters: RunningPrometheus, tmp_path: Path) -> None:
    found = collected(clusters, tmp_path, environment="prod")
    assert level(found, "checkout", "error_ratio") == pytest.approx(0.02, abs=0.002)
    assert level(found, "checkout", "request_rate") == pytest.approx(100, rel=0.02)


def test_a_service_that_runs_elsewhere_is_asked_for_there(
    clusters: RunningPrometheus, tmp_path: Path
) -> None:
    found = collected(clusters, tmp_path, cluster="prod-eu")
    assert level(found, "ledger", "request_rate") == pytest.approx(90, rel=0.02)
    assert [one.query for one in found.missing if "no series names" in one.reason] == ["ghost"]


def test_a_place_that_the_server_does_not_know_hides_nothing(
    clusters: RunningPrometheus, tmp_path: Path
) -> None:
    found = collected(clusters, tmp_path, cluster="renamed", tenant="acme")
    assert level(found, "checkout", "request_rate") == pytest.approx(110, rel=0.02)


def test_without_a_place_in_the_alert_all_are_added_up(
    clusters: RunningPrometheus, tmp_path: Path
) -> None:
    found = collected(clusters, tmp_path)
    assert level(found, "checkout", "request_rate") == pytest.approx(110, rel=0.02)
