"""The plainest live incident: a dependency becomes slow after its own deploy, and its caller times
out. Told to a real Prometheus that scrapes every 15 s, every minute or every two, and that knows
one cluster or, beside it, a larger one in which all is well. Who calls whom stands in the settings,
or nobody wrote it down: then Prometheus has the metrics of a service graph, or an earlier
investigation saw the calls.

web calls checkout, checkout calls payments and inventory. From the onset on payments takes 2.3 s
(p99) instead of 75 ms; checkout gives up after 1 s. "Deploy payments v2.3.1" lies 40 s before. A
restart 12 minutes earlier left a dip in the request rate that has long recovered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.requests.topology import case_calls
from faultline.analysis.vocabulary import Alert, Diagnosis, EvidenceKind, Scope, Verdict, Window
from faultline.bot.investigation.learning_calls import callees_now, learned_evidence, with_callees
from faultline.bot.store.memory import LearnedCall
from faultline.connectors.shared.contract.base import Check, Collected, Connector, Request
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.vendors.pagerduty.connector import PagerDutyConnector
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from faultline.loopback.pagerduty import LoopbackPagerDuty
from faultline.loopback.server import serve_in_thread
from tests.connectors.collected_cases import diagnosed_request
from tests.connectors.conftest import ALERT_AT, OpenMetrics, running_prometheus

SOURCE_OF = {
    "settings": ("catalogue",),
    "service graph": ("service_graph",),
    "earlier investigation": ("mesh",),
}
TO_DEPLOY = timedelta(seconds=40)
TO_DIP = timedelta(minutes=12)
LEAST_TO_ALERT_S = 240
POINTS_TO_ALERT = 4
"""A rule averages over some points, and holds for some more before it fires."""
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


KnownBy = Literal["settings", "service graph", "earlier investigation"]
CALLS_FROM: dict[KnownBy, str] = {
    "settings": "",
    "service graph": "-learned-from-a-service-graph",
    "earlier investigation": "-learned-earlier",
}


@dataclass(frozen=True)
class Installation:
    """How often is scraped, and how much more traffic the healthy cluster has, if there is one."""

    interval_s: int
    healthy_cluster: int = 0
    known_by: KnownBy = "settings"

    @property
    def onset(self) -> datetime:
        """When the dependency becomes slow: the seldomer is scraped, the later its alert."""
        to_alert_s = max(LEAST_TO_ALERT_S, POINTS_TO_ALERT * self.interval_s)
        return ALERT_AT - timedelta(seconds=to_alert_s)

    def __str__(self) -> str:
        clusters = "-two-clusters" if self.healthy_cluster else ""
        return f"{self.interval_s}s{clusters}" + CALLS_FROM[self.known_by]


INSTALLATIONS = [
    Installation(15),
    Installation(60),
    Installation(120),
    Installation(60, 9),
    Installation(60, 9, "service graph"),
    Installation(60, 0, "earlier investigation"),
]


def samples(installation: Installation) -> str:
    series = OpenMetrics()
    places = [("", 1)]
    if installation.healthy_cluster:
        places = [(',cluster="prod-eu"', 1), (',cluster="prod-us"', installation.healthy_cluster)]
    for number, (place, traffic) in enumerate(places):
        _add_cluster(series, installation, place, traffic, is_well=number > 0)
    return series.finished()


def _add_cluster(
    series: OpenMetrics, installation: Installation, place: str, traffic: int, *, is_well: bool
) -> None:
    interval_s, onset = installation.interval_s, installation.onset
    """Three hours of counters, each service scraped at its own second."""
    rng = np.random.default_rng(11)
    end = int(ALERT_AT.timestamp()) + 30
    for offset, service in enumerate(SERVICES):
        buckets = np.zeros(len(BUCKETS) + 1, dtype=int)
        good = bad = 0
        for t in range(end - 3 * 3600 + 3 * offset, end, interval_s):
            late = not is_well and t - interval_s >= onset.timestamp()
            dips = abs(t - (onset - TO_DIP).timestamp()) < 40 and service.name == "web"
            rate = traffic * service.rate * (0.3 if dips else 1.0)
            count = int(rng.poisson(rate * interval_s))
            failed = int(rng.binomial(count, FAILED_AFTER.get(service.name, 0))) if late else 0
            good, bad = good + count - failed, bad + failed
            buckets += _latencies(rng, service, count, late=late)
            _add(series, f'service="{service.name}"{place}', t, good, bad, buckets)
            if installation.known_by == "service graph":
                _add_calls(series, service, place, t, good + bad)


def _add_calls(
    series: OpenMetrics, callee: SimulatedService, place: str, t: int, count: int
) -> None:
    for caller, called in CALLS:
        if called == callee.name:
            labels = f'client="{caller}",server="{called}",connection_type=""{place}'
            series.add("traces_service_graph_request_total", "counter", labels, count, t)


def _latencies(
    rng: np.random.Generator, service: SimulatedService, count: int, *, late: bool
) -> np.ndarray:
    median = service.after_s if late else service.before_s
    seconds = rng.lognormal(np.log(median), SPREAD, count)
    if service.name == "checkout":
        seconds = np.minimum(seconds, TIMEOUT_S + 0.06)
    return np.bincount(np.searchsorted(BUCKETS, seconds), minlength=len(BUCKETS) + 1)


def _add(series: OpenMetrics, whose: str, t: int, good: int, bad: int, buckets: np.ndarray) -> None:
    for status, count in (("200", good), ("504", bad)):
        labels = f'{whose},status="{status}"'
        series.add("http_requests_total", "counter", labels, count, t)
    for le, count in zip((*BUCKETS, "+Inf"), np.cumsum(buckets), strict=True):
        labels = f'{whose},le="{le}"'
        series.add("http_request_duration_seconds_bucket", "unknown", labels, int(count), t)


@pytest.fixture(scope="module", params=INSTALLATIONS, ids=str)
def answered(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Case, Diagnosis]]:
    """The case that the real connectors bring, and what is made of it."""
    installation: Installation = request.param
    folder = tmp_path_factory.mktemp("slow-dependency")
    (folder / "prometheus").mkdir()
    (folder / "case").mkdir()
    pagerduty = LoopbackPagerDuty()
    pagerduty.services |= {f"PSVC{n:03d}": one.name for n, one in enumerate(SERVICES)}
    title = "checkout p99 latency is above 1 s"
    pagerduty.open_incident(INCIDENT, title, "checkout")
    pagerduty.publish_change(
        CHANGE, "Deploy payments v2.3.1", "payments", installation.onset - TO_DEPLOY
    )
    url, stop = serve_in_thread(pagerduty.app)
    try:
        with running_prometheus(folder / "prometheus", samples(installation)) as prometheus:
            connectors: list[Connector] = [
                PrometheusConnector(prometheus.url),
                PagerDutyConnector("token", url),
            ]
            asked = _request(folder / "case", title, installation)
            now = callees_now(connectors, asked.alert, asked.scope, deadline_s=30)
            callees = asyncio.run(now)
            if installation.known_by == "earlier investigation":
                connectors.append(EarlierInvestigation())
                callees = [callee for caller, callee in CALLS if caller == "checkout"]
            asked = replace(asked, scope=with_callees(asked.scope, callees))
            diagnosis = diagnosed_request(folder / "case", asked, *connectors)
            yield read_case(folder / "case"), diagnosis
    finally:
        stop()


@pytest.fixture
def diagnosis(answered: tuple[Case, Diagnosis]) -> Diagnosis:
    return answered[1]


class EarlierInvestigation:
    """Brings the calls that were seen three days ago, as the bot's own memory does."""

    name = "learned"
    kinds: tuple[EvidenceKind, ...] = ("topology",)
    limits = Limits()

    async def collect(self, request: Request) -> Collected:
        seen = ALERT_AT - timedelta(days=3)
        calls = [LearnedCall(*pair, "mesh", seen, "20260227-120000-abcdef") for pair in CALLS]
        return learned_evidence(calls)

    async def check(self) -> Check:
        return Check(self.name, True, "")


def _request(folder: Path, title: str, installation: Installation) -> Request:
    alert = Alert(
        source="pagerduty",
        id=INCIDENT,
        title=title,
        started_at=ALERT_AT,
        service="checkout",
        labels={"cluster": "prod-eu"},
    )
    start = ALERT_AT - timedelta(minutes=30)
    is_configured = installation.known_by == "settings"
    scope = Scope(
        incident=Window(start=start, end=ALERT_AT + timedelta(seconds=30)),
        baseline=(Window(start=start - timedelta(hours=2), end=start),),
        services=("checkout", "inventory", "payments") if is_configured else ("checkout",),
        calls=CALLS if is_configured else (),
    )
    return Request(alert, scope, folder)


def test_it_is_known_that_checkout_calls_payments_and_from_where(
    answered: tuple[Case, Diagnosis], request: pytest.FixtureRequest
) -> None:
    case, diagnosis = answered
    installation: Installation = request.node.callspec.params["answered"]
    calls = {call.pair: call for call in case_calls(case)}
    assert set(calls) == set(CALLS)
    found = calls["checkout", "payments"]
    assert found.sources == SOURCE_OF[installation.known_by]
    is_remembered = installation.known_by == "earlier investigation"
    assert (found.learned_in is not None) == is_remembered
    assert any("3 days ago" in line for line in diagnosis.missing) == is_remembered


def test_a_cause_is_found(diagnosis: Diagnosis) -> None:
    assert diagnosis.verdict is Verdict.CAUSE_FOUND


def test_the_dependency_is_the_culprit(diagnosis: Diagnosis) -> None:
    assert diagnosis.causes[0].subject == "payments"


def test_its_own_deploy_is_to_blame(diagnosis: Diagnosis) -> None:
    assert diagnosis.causes[0].change == CHANGE


def test_it_began_after_the_deploy_and_not_with_the_dip(
    answered: tuple[Case, Diagnosis], request: pytest.FixtureRequest
) -> None:
    onset = answered[1].causes[0].onset
    installation: Installation = request.node.callspec.params["answered"]
    assert onset is not None
    within_s = max(120, 2 * installation.interval_s)
    assert abs(onset - installation.onset) <= timedelta(seconds=within_s)


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
