"""Since when a Prometheus has data, asked of real ones."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from faultline.analysis.vocabulary import Window
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from tests.connectors.conftest import (
    ALERT_AT,
    OpenMetrics,
    RunningPrometheus,
    open_metrics,
    prometheus,
    running_prometheus,
)

__all__ = ["prometheus"]

WINDOW = Window(start=ALERT_AT - timedelta(minutes=150), end=ALERT_AT)
STEP = timedelta(seconds=15)


def since(url: str, window: Window = WINDOW) -> datetime | None:
    return asyncio.run(PrometheusConnector(url).data_since(window))


def test_of_what_began_before_the_window_the_start_is_told(prometheus: RunningPrometheus) -> None:
    assert since(prometheus.url) == WINDOW.start
    assert since(
        prometheus.url, Window(start=ALERT_AT + STEP * 100, end=ALERT_AT + STEP * 200)
    ) is (None)


@pytest.mark.parametrize("minutes", [1, 17, 140])
def test_the_first_sample_is_found_to_the_scrape(tmp_path: Path, minutes: int) -> None:
    began = ALERT_AT - timedelta(minutes=minutes)
    text = open_metrics(history=timedelta(minutes=minutes), sick=timedelta(0))
    with running_prometheus(tmp_path, text) as server:
        found = since(server.url)
    assert found is not None
    assert began <= found <= began + STEP


def test_services_count_and_not_what_prometheus_knows_of_itself(tmp_path: Path) -> None:
    series = OpenMetrics()
    for minutes in range(180):
        t = int((ALERT_AT - timedelta(minutes=180 - minutes)).timestamp())
        series.add("up", "gauge", 'job="prometheus"', 1, t)
        if minutes >= 160:
            series.add("http_requests_total", "counter", 'service="a",code="200"', minutes, t)
    with running_prometheus(tmp_path, series.finished()) as server:
        found = since(server.url)
    assert found is not None
    assert abs(found - (ALERT_AT - timedelta(minutes=20))) < timedelta(minutes=1)


def test_without_requests_that_of_the_targets_counts(tmp_path: Path) -> None:
    series = OpenMetrics()
    for minutes in range(30):
        t = int((ALERT_AT - timedelta(minutes=30 - minutes)).timestamp())
        series.add("up", "gauge", 'job="node"', 1, t)
    with running_prometheus(tmp_path, series.finished()) as server:
        found = since(server.url)
    assert found is not None
    assert abs(found - (ALERT_AT - timedelta(minutes=30))) < timedelta(minutes=1)
