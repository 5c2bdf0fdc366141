"""One part of a service is in trouble: a real Prometheus knows six pods of two versions in two
clusters, of which the one that runs the new version fails a third of its requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.kinds.finding_details import PartDetails
from faultline.analysis.vocabulary import Alert, Diagnosis, Finding, Scope, Window
from faultline.connectors.shared.contract.base import Request
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from tests.connectors.collected_cases import diagnosed_request
from tests.connectors.conftest import ALERT_AT, OpenMetrics, running_prometheus

INTERVAL_S = 60
ONSET = ALERT_AT - timedelta(minutes=8)
BAD_SHARE = 0.35
RATE = 6.0


@dataclass(frozen=True)
class SimulatedPod:
    """Where it runs, and what."""

    name: str
    version: str
    cluster: str

    @property
    def labels(self) -> str:
        return (
            f'service="checkout",pod="{self.name}",version="{self.version}",'
            f'cluster="{self.cluster}",instance="{self.name}:8080"'
        )


PODS = (
    *(SimulatedPod(f"checkout-a{n}", "2.3.0", "prod-eu") for n in range(3)),
    SimulatedPod("checkout-b0", "2.3.1", "prod-eu"),
    *(SimulatedPod(f"checkout-c{n}", "2.3.0", "prod-us") for n in range(2)),
)
BAD = "checkout-b0"


def samples() -> str:
    """Three hours of requests by status."""
    series, rng = OpenMetrics(), np.random.default_rng(5)
    end = int(ALERT_AT.timestamp()) + 30
    for offset, pod in enumerate(PODS):
        good = bad = 0
        for t in range(end - 3 * 3600 + 3 * offset, end, INTERVAL_S):
            fails = pod.name == BAD and t - INTERVAL_S >= ONSET.timestamp()
            count = int(rng.poisson(RATE * INTERVAL_S))
            failed = int(rng.binomial(count, BAD_SHARE if fails else 0.002))
            good, bad = good + count - failed, bad + failed
            for status, value in (("200", good), ("500", bad)):
                labels = f'{pod.labels},status="{status}"'
                series.add("http_requests_total", "counter", labels, value, t)
    return series.finished()


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Case, Diagnosis]]:
    folder = tmp_path_factory.mktemp("parts")
    (folder / "prometheus").mkdir()
    (folder / "case").mkdir()
    start = ALERT_AT - timedelta(minutes=30)
    alert = Alert(
        source="alertmanager",
        title="checkout: more than 5 % of requests fail",
        started_at=ALERT_AT,
        service="checkout",
        labels={"cluster": "prod-eu"},
    )
    scope = Scope(
        incident=Window(start=start, end=ALERT_AT + timedelta(seconds=30)),
        baseline=(Window(start=start - timedelta(hours=2), end=start),),
        services=("checkout",),
    )
    with running_prometheus(folder / "prometheus", samples()) as prometheus:
        diagnosis = diagnosed_request(
            folder / "case",
            Request(alert, scope, folder / "case"),
            PrometheusConnector(prometheus.url),
        )
        yield read_case(folder / "case"), diagnosis


def found(diagnosis: Diagnosis, kind: str) -> list[Finding]:
    return [one for one in diagnosis.findings if one.kind == kind]


def test_the_cause_says_which_version_it_is(answered: tuple[Case, Diagnosis]) -> None:
    first = answered[1].causes[0]
    assert first.subject == "checkout"
    assert "Of 2 versions of checkout only 2.3.1 is worse than before" in first.summary
    assert first.next_step.startswith("Take version 2.3.1 of checkout out of traffic")


def test_it_is_told_once(answered: tuple[Case, Diagnosis]) -> None:
    [part] = found(answered[1], "part_contrast")
    details = PartDetails.of(part)
    assert details is not None
    assert (details.part_kind, details.parts, details.parts_known) == ("version", ("2.3.1",), 2)


def test_a_shift_is_that_of_the_whole_service_in_the_alerts_cluster(
    answered: tuple[Case, Diagnosis],
) -> None:
    case, diagnosis = answered
    [shift] = [one for one in found(diagnosis, "metric_shift") if one.signal == "error_ratio"]
    assert "labels" not in shift.series
    # A third of one of four pods: the two in the other cluster are not added.
    assert shift.numbers["incident"] == pytest.approx(BAD_SHARE / 4, rel=0.3)
    whole = case.metrics.filter(pl.col("labels").is_null(), pl.col("signal") == "error_ratio")
    assert whole.select("time", "service").is_duplicated().sum() == 0


def test_clusters_are_compared_although_the_alert_names_one(
    answered: tuple[Case, Diagnosis],
) -> None:
    split = answered[0].metrics["labels"].drop_nulls().unique()
    assert set(split) >= {'{"cluster":"prod-eu"}', '{"cluster":"prod-us"}', '{"version":"2.3.1"}'}
    # An instance is a pod, and is not asked about twice.
    assert not split.str.contains("instance").any()


ZONES = {"node-1": "eu-1a", "node-2": "eu-1b", "node-3": "eu-1c"}


def samples_of_zones(scraped_at: str, renamed: str = "") -> str:
    """Two services with a pod on each node; in one zone both fail. Pods carry no place:
    kube-state-metrics has it, in labels that are perhaps renamed."""
    series, rng = OpenMetrics(), np.random.default_rng(7)
    end = int(ALERT_AT.timestamp()) + 30
    for service in ("checkout", "payments"):
        for number, (node, zone) in enumerate(ZONES.items()):
            pod, address = f"{service}-{number}", f"10.1.{len(service)}.{number}"
            good = bad = 0
            for t in range(end - 3 * 3600, end, INTERVAL_S):
                fails = zone == "eu-1b" and t - INTERVAL_S >= ONSET.timestamp()
                count = int(rng.poisson(RATE * INTERVAL_S))
                failed = int(rng.binomial(count, BAD_SHARE if fails else 0.002))
                good, bad = good + count - failed, bad + failed
                host = scraped_at.format(pod=pod, address=address)
                scraped = f'service="{service}",instance="{host}:8080"'
                for status, value in (("200", good), ("500", bad)):
                    labels = f'{scraped},status="{status}"'
                    series.add("http_requests_total", "counter", labels, value, t)
                where = f'{renamed}pod="{pod}",pod_ip="{address}",{renamed}node="{node}"'
                if renamed:
                    where += ',pod="kube-state-metrics-0",node="node-9"'
                series.add("kube_pod_info", "gauge", where, 1, t)
    for node, zone in ZONES.items():
        for t in range(end - 3600, end, INTERVAL_S):
            labels = f'node="{node}",label_topology_kubernetes_io_zone="{zone}"'
            series.add("kube_node_labels", "gauge", labels, 1, t)
    return series.finished()


@pytest.mark.parametrize(
    ("scraped_at", "renamed", "rounds"),
    [("{address}", "", 1), ("{pod}", "", 1), ("{pod}", "exported_", 1), ("{pod}", "", 2)],
)
def test_a_zone_that_only_kube_state_metrics_knows_is_the_cause(
    scraped_at: str, renamed: str, rounds: int, tmp_path: Path
) -> None:
    start = ALERT_AT - timedelta(minutes=30)
    scope = Scope(
        # Remote write brings the latest minutes later.
        incident=Window(start=start, end=ALERT_AT + timedelta(minutes=5)),
        baseline=(Window(start=start - timedelta(hours=2), end=start),),
        services=("checkout", "payments"),
    )
    alert = Alert(source="test", title="checkout fails", started_at=ALERT_AT, service="checkout")
    (tmp_path / "prometheus").mkdir()
    (tmp_path / "case").mkdir()
    samples = samples_of_zones(scraped_at, renamed)
    with running_prometheus(tmp_path / "prometheus", samples) as prometheus:
        diagnosis = diagnosed_request(
            tmp_path / "case",
            # A later round asks about services that came to light.
            Request(alert, scope, tmp_path / "case", round=rounds),
            PrometheusConnector(prometheus.url),
        )
    labels = read_case(tmp_path / "case").metrics["labels"].drop_nulls().unique().to_list()
    assert any('"node":"node-2","zone":"eu-1b"' in text for text in labels)
    assert diagnosis.causes[0].subject in ("eu-1b", "node-2")


def test_services_with_other_metrics_are_split_as_well(tmp_path: Path) -> None:
    """checkout counts its requests by itself, payments by OpenTelemetry."""
    series = OpenMetrics()
    end = int(ALERT_AT.timestamp()) + 30
    counters = {
        "checkout": ("http_requests_total", "counter", 'service="checkout",status="{}"'),
        "payments": (
            "http_server_request_duration_seconds_count",
            "unknown",
            'service_name="payments",http_response_status_code="{}"',
        ),
    }
    for name, kind, labels in counters.values():
        for number in range(3):
            for t in range(end - 3 * 3600, end, INTERVAL_S):
                count = RATE * (t - end + 3 * 3600)
                for status, share in (("200", 0.99), ("500", 0.01)):
                    pod = f'{labels.format(status)},pod="p-{number}"'
                    series.add(name, kind, pod, share * count, t)
    start = ALERT_AT - timedelta(minutes=30)
    scope = Scope(
        incident=Window(start=start, end=ALERT_AT),
        baseline=(Window(start=start - timedelta(hours=2), end=start),),
        services=("checkout", "payments"),
    )
    alert = Alert(source="test", title="checkout fails", started_at=ALERT_AT, service="checkout")
    with running_prometheus(tmp_path, series.finished()) as prometheus:
        connector = PrometheusConnector(prometheus.url)
        collected = asyncio.run(connector.collect(Request(alert, scope, tmp_path)))
    parts = collected.tables["metrics"].filter(pl.col("labels").is_not_null())
    by_service = parts.filter(signal="error_ratio").group_by("service")
    assert dict(by_service.agg(pl.col("labels").n_unique()).iter_rows()) == {
        "checkout": 3,
        "payments": 3,
    }
