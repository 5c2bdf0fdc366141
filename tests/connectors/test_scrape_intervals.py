"""Prometheus scraped at any interval: rates are there, and no value stands twice in the table."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Window
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from faultline.connectors.vendors.prometheus.scrape_intervals import period_s, slowest_interval
from faultline.connectors.vendors.prometheus.series import PrometheusSeries
from tests.connectors.conftest import (
    ALERT_AT,
    OpenMetrics,
    RunningPrometheus,
    request_for,
    running_prometheus,
)

NAMES = ("http_requests_total", "http_server_request_duration_seconds_count")
INTERVALS = {"often": 15, "seldom": 60}


def samples() -> str:
    """Two services: one scraped every 15 s, one every minute."""
    series = OpenMetrics()
    first = int((ALERT_AT - timedelta(hours=3)).timestamp())
    for (service, every), name in zip(INTERVALS.items(), NAMES, strict=True):
        for t in range(first, int(ALERT_AT.timestamp()) + 1, every):
            labels = f'service="{service}",code="200"'
            series.add(
                name, "counter" if name.endswith("_total") else "unknown", labels, t - first, t
            )
    return series.finished()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPrometheus]:
    """A real Prometheus with both."""
    with running_prometheus(tmp_path_factory.mktemp("intervals"), samples()) as running:
        yield running


def test_rates_have_a_point_for_each_scrape(server: RunningPrometheus, tmp_path: Path) -> None:
    collected = asyncio.run(PrometheusConnector(server.url).collect(request_for(tmp_path)))
    rates = collected.tables["metrics"].filter(pl.col("signal") == "request_rate")
    for service, every in INTERVALS.items():
        own = rates.filter(pl.col("service") == service)
        # Two and a half hours, and the counter grows by one a second.
        assert own.height == pytest.approx(9000 / every, abs=3), service
        assert own["value"].median() == pytest.approx(1.0, rel=0.02)


def series(service: str, *counts: int) -> PrometheusSeries:
    return PrometheusSeries(
        {"service": service}, [(n, str(count)) for n, count in enumerate(counts)]
    )


def test_a_restart_or_a_new_service_makes_no_longer_interval() -> None:
    assert slowest_interval([series("a", 40, 12, 40), series("b", 38, 40, 39)], 600) == 15


def test_the_service_that_is_scraped_least_often_decides() -> None:
    assert slowest_interval([series("a", 40, 40, 40), series("b", 10, 10, 10)], 599) == 60


def test_what_was_never_counted_has_no_interval() -> None:
    assert slowest_interval([], 600) is None
    assert slowest_interval([series("a", 1)], 600) is None


@pytest.mark.parametrize("count", ["NaN", "+Inf"])
def test_what_is_no_count_has_no_interval(count: str) -> None:
    assert slowest_interval([PrometheusSeries({"service": "a"}, [(0, count)])], 600) is None


def test_a_count_that_is_no_number_is_one_clear_error() -> None:
    with pytest.raises(ConnectorError, match="is not a number"):
        slowest_interval([PrometheusSeries({"service": "a"}, [(0, "many")])], 600)


def test_short_windows_are_counted_in_short_periods() -> None:
    short = Window(start=ALERT_AT - timedelta(minutes=6), end=ALERT_AT)
    assert period_s(short) == 119
