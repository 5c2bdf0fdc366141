"""Of a real VictoriaMetrics the Prometheus connector brings what it brings of a real Prometheus
with the same samples."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import polars as pl
import pytest

from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from faultline.loopback.bot_process import free_port
from tests.connectors.conftest import (
    ALERT_AT,
    OpenMetrics,
    open_metrics,
    request_for,
    running_prometheus,
)
from tests.connectors.real_servers import debian_program, programs

AT_S = int(ALERT_AT.timestamp())
BORN_S, RISES_S = AT_S - 900, AT_S - 700
"""When some series begin, and when those that were there rise."""
REASON = 'namespace="shop",pod="{0}-1",container="{0}",reason="OOMKilled"'
COUNTERS: tuple[tuple[str, str, int, int], ...] = (
    # Name, labels, where it begins, its value then; it rises by 1 unless it is new.
    *(
        ("kube_pod_container_status_restarts_total", REASON.format(pod).rpartition(",")[0], at, n)
        for pod, at, n in (("old", 0, 2), ("new", BORN_S, 3))
    ),
    *(
        ("node_vmstat_oom_kill", f'instance="{node}:9100",job="node"', at, 5)
        for node, at in (("old", 0), ("new", BORN_S))
    ),
    *(
        ("process_start_time_seconds", f'instance="{job}:80",job="{job}"', at, 1_700_000_000)
        for job, at in (("old-job", 0), ("new-job", BORN_S))
    ),
)


def counters() -> OpenMetrics:
    """Three hours in which half of them rise once and the others begin as high as they stay."""
    series = OpenMetrics()
    for t in range(AT_S - 3 * 3600, AT_S + 60, 60):
        for name, labels, begins, value in COUNTERS:
            risen = int(not begins and t >= RISES_S)
            if t >= begins:
                series.add(name, "unknown", labels, value + risen, t)
        for pod in ("old", "new"):
            name = "kube_pod_container_status_last_terminated_reason"
            series.add(name, "gauge", REASON.format(pod), 1, t)
    return series


def interrupted() -> OpenMetrics:
    """Requests that nobody counted for some minutes of the incident."""
    series = OpenMetrics()
    for n, t in enumerate(range(AT_S - 3 * 3600 + 7, AT_S + 60, 60)):
        if not BORN_S < t < RISES_S:
            labels = 'http_route="/",service_name="search"'
            series.add("http_server_request_duration_seconds_count", "counter", labels, 60 * n, t)
    return series


def lately() -> OpenMetrics:
    """Requests of the last minutes."""
    series = OpenMetrics()
    now = int(time.time())
    for t in range(now - 600, now, 15):
        series.add("http_requests_total", "counter", 'service="checkout",code="200"', t, t)
    return series


def recorded() -> str:
    """All samples of the incident."""
    parts = (open_metrics(), counters().finished(), interrupted().finished())
    return "".join(part.removesuffix("# EOF\n") for part in parts) + "# EOF\n"


def in_milliseconds(samples: str) -> str:
    """OpenMetrics has times in seconds, the older format of text, which is imported, in ms."""
    return re.sub(r"(?m)^([^#\n].* \d+)$", r"\g<1>000", samples)


@pytest.fixture(scope="module")
def victoria(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one with the recorded incident, these counters and requests of now."""
    with programs(tmp_path_factory.mktemp("victoria")) as running:
        port = free_port()
        running.start(
            debian_program("victoria-metrics"),
            f"-httpListenAddr=127.0.0.1:{port}",
            "-storageDataPath=data",
            "-retentionPeriod=100y",
        )
        url = f"http://127.0.0.1:{port}"
        running.until_answers(f"{url}/health")
        for samples in (recorded(), lately().finished()):
            text = in_milliseconds(samples)
            httpx.post(f"{url}/api/v1/import/prometheus", content=text).raise_for_status()
        httpx.get(f"{url}/internal/force_flush").raise_for_status()
        yield url


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Collected:
    """What comes of Prometheus."""
    folder = tmp_path_factory.mktemp("prometheus")
    with running_prometheus(folder, recorded()) as running:
        return collected_from(running.url, folder)


@pytest.fixture(scope="module")
def found(victoria: str, tmp_path_factory: pytest.TempPathFactory) -> Collected:
    """What comes of VictoriaMetrics."""
    return collected_from(victoria, tmp_path_factory.mktemp("files"))


def collected_from(url: str, folder: Path) -> Collected:
    """All that the connector brings of the recorded incident."""
    request = request_for(folder, services=("checkout", 'ca"rt', "nobody"))
    return asyncio.run(PrometheusConnector(url).collect(request))


def test_the_same_is_missing(found: Collected, expected: Collected) -> None:
    assert found.missing == expected.missing


def test_each_signal_of_each_service_moves_alike(found: Collected, expected: Collected) -> None:
    keys = ["service", "signal", "labels"]
    value = pl.col("value")
    moves = (value.median(), value.quantile(0.95).alias("high"), value.max().alias("highest"))
    ours, theirs = (
        one.tables["metrics"].group_by(keys).agg(*moves).sort(keys) for one in (expected, found)
    )
    assert theirs.select(keys).rows() == ours.select(keys).rows()
    for name in ("value", "high", "highest"):
        assert theirs[name].to_list() == pytest.approx(ours[name].to_list(), rel=0.05), name


def test_what_begins_in_the_incident_has_not_been_killed_or_restarted_in_it(
    found: Collected, expected: Collected
) -> None:
    """MetricsQL takes a counter that begins for one that was 0 before."""
    columns = ["kind", "name", "fact", "value"]
    states = found.tables["states"].select(columns)
    assert set(states.iter_rows()) == set(expected.tables["states"].select(columns).iter_rows())
    assert set(states["name"]) == {"old", "old-1"}, "the service, and the pod that restarts"


def test_a_gap_does_not_begin_with_a_rate_of_zero(found: Collected) -> None:
    """MetricsQL takes the sample before a range into account, also where the range holds none."""
    of_search = pl.col("service") == "search", pl.col("signal") == "request_rate"
    rates = found.tables["metrics"].filter(*of_search)["value"]
    assert rates.to_list() == pytest.approx([1.0] * rates.len())


def test_the_same_alerts_are_active(found: Collected, expected: Collected) -> None:
    ours, theirs = expected.tables["monitors"], found.tables["monitors"]
    columns = ["monitor", "service", "state"]
    assert theirs.select(columns).equals(ours.select(columns))
    # Without staleness markers an alert that is over lives on for Prometheus' five minutes.
    later = (theirs["since"] - ours["since"]).abs().max()
    assert isinstance(later, timedelta)
    assert later <= timedelta(minutes=5)


def test_check_says_what_it_finds_there(victoria: str) -> None:
    said = asyncio.run(PrometheusConnector(victoria).check())
    assert said.ok, said.line
    assert "1 service (checkout)" in said.line
    # The data begins at a past minute, so a slow start may add a second to the average.
    assert re.search(r"scraped every 1[456] s", said.line)
