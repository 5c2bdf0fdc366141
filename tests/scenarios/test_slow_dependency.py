"""The plainest live incident: a dependency becomes slow after its own deploy, and its caller times
out. Told to a real Prometheus that scrapes every 15 s or every minute.

web calls checkout, checkout calls payments and inventory. From the onset on payments takes 2.3 s
(p99) instead of 75 ms; checkout gives up after 1 s. "Deploy payments v2.3.1" lies 40 s before. A
restart 12 minutes earlier left a dip in the request rate that has long recovered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from analysis.case.folder import Case, read_case
from analysis.vocabulary import Alert, Diagnosis, Scope, Verdict, Window
from connectors.base import Request
from connectors.pagerduty.connector import PagerDutyConnector
from connectors.prometheus.connector import PrometheusConnector
from loopback.pagerduty import LoopbackPagerDuty
from loopback.server import serve_in_thread
from tests.connectors.collected_cases import diagnosed_request
from tests.connectors.conftest import ALERT_AT, OpenMetrics, running_prometheus

ONSET = ALERT_AT - timedelta(minutes=4)
DEPLOYED = ONSET - timedelta(seconds=40)
DIP = ONSET - timedelta(minutes=12)
CHANGE, INCIDENT = "CEPAYMENTS", "PSLOW1"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0)
TIMEOUT_S = 1.0
CALLS = (("web", "checkout"), ("checkout", "inventory"), ("checkout", "payments"))
SPREAD = 0.5


@dataclass(frozen=True)
class SimulatedService:
    """Requests a second, and the median latency before and after the onset."""

    name: str
    rate: float
    before_s: float
    after_s: float


SERVICES = (
    SimulatedService("inventory", 12, 0.012, 0.012),
    SimulatedService("payments", 8, 0.023, 0.72),
    SimulatedService("checkout", 8, 0.06, 0.8),
    SimulatedService("web", 25, 0.08, 0.3),
)
FAILED_AFTER = {"checkout": 0.26, "web": 0.09}
"""Share of failed requests: a quarter of payments' answers take longer than the time-out."""


def samples(interval_s: int) -> str:
    """Three hours of counters, each service scraped at its own second."""
    rng = np.random.default_rng(11)
    series = OpenMetrics()
    end = int(ALERT_AT.timestamp()) + 30
    for offset, service in enumerate(SERVICES):
        buckets = np.zeros(len(BUCKETS) + 1, dtype=int)
        good = bad = 0
        for t in range(end - 3 * 3600 + 3 * offset, end, interval_s):
            late = t - interval_s >= ONSET.timestamp()
            dips = abs(t - DIP.timestamp()) < 40 and service.name == "web"
            count = int(rng.poisson(service.rate * interval_s * (0.3 if dips else 1.0)))
            failed = int(rng.binomial(count, FAILED_AFTER.get(service.name, 0))) if late else 0
            good, bad = good + count - failed, bad + failed
            buckets += _latencies(rng, service, count, late=late)
            _add(series, service.name, t, good, bad, buckets)
    return series.finished()


def _latencies(
    rng: np.random.Generator, service: SimulatedService, count: int, *, late: bool
) -> np.ndarray:
    median = service.after_s if late else service.before_s
    seconds = rng.lognormal(np.log(median), SPREAD, count)
    if service.name == "checkout":
        seconds = np.minimum(seconds, TIMEOUT_S + 0.06)
    return np.bincount(np.searchsorted(BUCKETS, seconds), minlength=len(BUCKETS) + 1)


def _add(
    series: OpenMetrics, service: str, t: int, good: int, bad: int, buckets: np.ndarray
) -> None:
    for status, count in (("200", good), ("504", bad)):
        labels = f'service="{service}",status="{status}"'
        series.add("http_requests_total", "counter", labels, count, t)
    for le, count in zip((*BUCKETS, "+Inf"), np.cumsum(buckets), strict=True):
        labels = f'service="{service}",le="{le}"'
        series.add("http_request_duration_seconds_bucket", "unknown", labels, int(count), t)


@pytest.fixture(scope="module", params=[15, 60], ids=["15s", "60s"])
def answered(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Case, Diagnosis]]:
    """The case that the real connectors bring, and what is made of it."""
    folder = tmp_path_factory.mktemp("slow-dependency")
    (folder / "prometheus").mkdir()
    (folder / "case").mkdir()
    pagerduty = LoopbackPagerDuty()
    pagerduty.services |= {f"PSVC{n:03d}": one.name for n, one in enumerate(SERVICES)}
    title = "checkout p99 latency is above 1 s"
    pagerduty.open_incident(INCIDENT, title, "checkout")
    pagerduty.publish_change(CHANGE, "Deploy payments v2.3.1", "payments", DEPLOYED)
    url, stop = serve_in_thread(pagerduty.app)
    try:
        with running_prometheus(folder / "prometheus", samples(request.param)) as prometheus:
            diagnosis = diagnosed_request(
                folder / "case",
                _request(folder / "case", title),
                PrometheusConnector(prometheus.url),
                PagerDutyConnector("token", url),
            )
            yield read_case(folder / "case"), diagnosis
    finally:
        stop()


@pytest.fixture
def diagnosis(answered: tuple[Case, Diagnosis]) -> Diagnosis:
    return answered[1]


def _request(folder: Path, title: str) -> Request:
    alert = Alert(
        source="pagerduty", id=INCIDENT, title=title, started_at=ALERT_AT, service="checkout"
    )
    start = ALERT_AT - timedelta(minutes=30)
    scope = Scope(
        incident=Window(start=start, end=ALERT_AT + timedelta(seconds=30)),
        baseline=(Window(start=start - timedelta(hours=2), end=start),),
        services=("checkout", "inventory", "payments"),
        calls=CALLS,
    )
    return Request(alert, scope, folder)


def test_a_cause_is_found(diagnosis: Diagnosis) -> None:
    assert diagnosis.verdict is Verdict.CAUSE_FOUND


def test_the_dependency_is_the_culprit(diagnosis: Diagnosis) -> None:
    assert diagnosis.causes[0].subject == "payments"


def test_its_own_deploy_is_to_blame(diagnosis: Diagnosis) -> None:
    assert diagnosis.causes[0].change == CHANGE


def test_it_began_after_the_deploy_and_not_with_the_dip(diagnosis: Diagnosis) -> None:
    onset = diagnosis.causes[0].onset
    assert onset is not None
    assert abs((onset - ONSET).total_seconds()) <= 120


def test_the_answer_tells_of_one_onset(diagnosis: Diagnosis) -> None:
    first = diagnosis.causes[0]
    since = diagnosis.impact.since
    assert first.onset is not None
    assert since is not None
    assert abs((first.onset - since).total_seconds()) <= 120


def test_each_finding_cites_the_query_of_its_own_series_and_links_its_graph(
    answered: tuple[Case, Diagnosis],
) -> None:
    case, diagnosis = answered
    evidence = {item.id: item for item in case.evidence}
    of_metrics = [one for one in diagnosis.findings if one.series.get("table") == "metrics"]
    assert {one.signal for one in of_metrics} >= {"latency_p99", "error_ratio"}
    for finding in of_metrics:
        assert finding.evidence
        for item in (evidence[one] for one in finding.evidence):
            assert finding.series["service"] in (item.services or ())
            assert item.signals == (finding.series["signal"],)
            [shown] = parse_qs(urlsplit(item.link or "").query)["g0.expr"]
            assert shown == item.query
