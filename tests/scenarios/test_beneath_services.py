"""Alerts whose cause lies beneath a service, told to a real Prometheus by what exporters show.

In cluster `shop` the disk of node-7 fills up, orders runs there and fails, web calls orders. In
cluster `pay` nothing was deployed: payments reaches its CPU limit and is throttled, so that it
answers slowly, and checkout calls payments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from faultline.analysis.vocabulary import Alert, Diagnosis, Scope, Verdict, Window
from faultline.connectors.shared.contract.base import Request
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from tests.connectors.collected_cases import diagnosed_request
from tests.connectors.conftest import (
    ALERT_AT,
    OpenMetrics,
    RunningPrometheus,
    running_prometheus,
)

EVERY_S = 30
ONSET = ALERT_AT - timedelta(minutes=6)
FULL = ONSET - timedelta(minutes=2)
"""A while before anything fails the disk has no room left."""
GIB = 2.0**30


@dataclass(frozen=True)
class SimulatedService:
    """Requests a second, the share of failures and the seconds of most answers after the onset."""

    name: str
    cluster: str
    rate: float
    fails: float = 0.0
    takes: float = 0.08


SERVICES = (
    SimulatedService("web", "shop", 20, fails=0.3),
    SimulatedService("orders", "shop", 10, fails=0.6),
    SimulatedService("search", "shop", 10),
    SimulatedService("checkout", "pay", 20, takes=0.9),
    SimulatedService("payments", "pay", 10, takes=0.8),
    SimulatedService("ledger", "pay", 10),
    SimulatedService("mail", "calm", 10),
)
NODES = {
    ("shop", "node-7"): ("orders",),
    ("shop", "node-8"): ("web", "search"),
    ("calm", "node-9"): ("mail",),
}
BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5)


def samples() -> str:
    series = OpenMetrics()
    rng = np.random.default_rng(5)
    end = int(ALERT_AT.timestamp()) + 30
    times = range(end - 3 * 3600, end, EVERY_S)
    for service in SERVICES:
        _requests(series, rng, service, times)
    for (cluster, node), services in NODES.items():
        for service in services:
            pod = f'cluster="{cluster}",node="{node}",pod="{service}-6d5f8c-x2x9l"'
            for t in times:
                series.add("kube_pod_info", "gauge", pod, 1, t)
        # Nothing is known of the others a day ago.
        first = times.start - 24 * 3600 if node == "node-9" else times.start
        _node(series, cluster, node, range(first, end, EVERY_S))
    for service in ("checkout", "payments", "ledger"):
        _container(series, rng, service, times)
    return series.finished()


def _requests(
    series: OpenMetrics, rng: np.random.Generator, service: SimulatedService, times: range
) -> None:
    good = bad = 0
    buckets = np.zeros(len(BUCKETS) + 1, dtype=int)
    whose = f'service="{service.name}",cluster="{service.cluster}"'
    for t in times:
        late = t >= ONSET.timestamp()
        count = int(rng.poisson(service.rate * EVERY_S))
        failed = int(rng.binomial(count, service.fails)) if late else 0
        good, bad = good + count - failed, bad + failed
        seconds = rng.lognormal(np.log(service.takes if late else 0.08), 0.4, count)
        buckets += np.bincount(np.searchsorted(BUCKETS, seconds), minlength=len(BUCKETS) + 1)
        for status, number in (("200", good), ("500", bad)):
            series.add("http_requests_total", "counter", f'{whose},status="{status}"', number, t)
        for le, number in zip((*BUCKETS, "+Inf"), np.cumsum(buckets), strict=True):
            name = "http_request_duration_seconds_bucket"
            series.add(name, "unknown", f'{whose},le="{le}"', int(number), t)


def _node(series: OpenMetrics, cluster: str, node: str, times: range) -> None:
    """The disk of node-7 fills up from 80 % in the last half hour before it is full; those of the
    others have been at 98 % all along, and harm nobody."""
    where = f'cluster="{cluster}",instance="{node}",mountpoint="/",fstype="ext4",device="/dev/sda1"'
    for t in times:
        free = 0.02
        if node == "node-7":
            free = min(0.2, max(0.0, (FULL.timestamp() - t) / 1800 * 0.2))
        series.add("node_filesystem_size_bytes", "gauge", where, 100 * GIB, t)
        series.add("node_filesystem_avail_bytes", "gauge", where, 100 * GIB * free, t)


def _container(series: OpenMetrics, rng: np.random.Generator, service: str, times: range) -> None:
    where = f'cluster="pay",namespace="pay",container="{service}",pod="{service}-0"'
    periods = throttled = used = 0.0
    for t in times:
        late = t >= ONSET.timestamp() and service == "payments"
        periods += 10 * EVERY_S
        throttled += (0.7 if late else 0.01) * 10 * EVERY_S
        used += EVERY_S * (0.5 if late else 0.2) * float(rng.uniform(0.95, 1.05))
        name = "container_cpu_cfs_throttled_periods_total"
        series.add("container_cpu_cfs_periods_total", "counter", where, periods, t)
        series.add(name, "counter", where, throttled, t)
        series.add("container_cpu_usage_seconds_total", "counter", where, used, t)
        # ledger lives near its limit, and has always done so.
        share = 0.95 if service == "ledger" else 0.4
        series.add("container_memory_working_set_bytes", "gauge", where, share * GIB, t)
        series.add("container_spec_memory_limit_bytes", "gauge", where, GIB, t)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPrometheus]:
    with running_prometheus(tmp_path_factory.mktemp("beneath"), samples()) as running:
        yield running


Answer = Callable[..., Diagnosis]


@pytest.fixture
def answer(server: RunningPrometheus, tmp_path: Path) -> Answer:
    """What is made of an alert by the connector and the analysis."""

    def of(title: str, service: str, cluster: str, *calls: tuple[str, str]) -> Diagnosis:
        start = ALERT_AT - timedelta(minutes=30)
        alert = Alert(
            source="test",
            title=title,
            started_at=ALERT_AT,
            service=service,
            labels={"cluster": cluster},
        )
        scope = Scope(
            incident=Window(start=start, end=ALERT_AT),
            baseline=(Window(start=start - timedelta(hours=2), end=start),),
            services=(service, *(callee for _, callee in calls)),
            calls=calls,
        )
        request = Request(alert, scope, tmp_path)
        return diagnosed_request(tmp_path, request, PrometheusConnector(server.url))

    return of


def test_a_full_disk_of_a_node_is_why_the_service_on_it_fails(answer: Answer) -> None:
    diagnosis = answer(
        "web error rate is above 10 %", "web", "shop", ("web", "orders"), ("web", "search")
    )
    first = diagnosis.causes[0]
    assert diagnosis.verdict is Verdict.CAUSE_FOUND
    assert (first.subject, first.kind) == ("node-7", "node_under_pressure")
    told, other = [one for one in diagnosis.findings if one.kind == "node_state"]
    assert (other.subject, other.onset) == ("node-8", None)
    assert told.sentence == "Node node-7 has 100 % of the space on / in use."
    assert told.onset is not None
    # From 97 % on.
    assert FULL - timedelta(minutes=6) <= told.onset <= FULL


def test_throttling_is_why_a_service_is_slow(answer: Answer) -> None:
    diagnosis = answer(
        "checkout p99 latency is above 1 s",
        "checkout",
        "pay",
        ("checkout", "payments"),
        ("checkout", "ledger"),
    )
    first = diagnosis.causes[0]
    assert diagnosis.verdict is Verdict.CAUSE_FOUND
    assert (first.subject, first.kind) == ("payments", "cpu_throttled")
    told, other = [one for one in diagnosis.findings if one.kind == "saturation_state"]
    assert (other.subject, other.onset) == ("ledger", None)
    assert told.sentence == (
        "Container payments is throttled by its CPU limit: in 70 % of its scheduling periods."
    )


def test_what_has_been_so_all_along_is_told_and_explains_no_alert(answer: Answer) -> None:
    diagnosis = answer("mail error rate is above 10 %", "mail", "calm")
    assert diagnosis.verdict is not Verdict.CAUSE_FOUND
    [told] = [one for one in diagnosis.findings if one.subject == "node-9"]
    assert told.sentence == "Node node-9 has 98 % of the space on / in use, for 1 day."
