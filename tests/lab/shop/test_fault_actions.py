"""Each fault breaks what it says it breaks, and undoing it leaves the shop healthy."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultline.lab.shop.changes import ChangeDesk
from faultline.lab.shop.faults import FAULTS, NO_CHANGE, ShopFault, ShopIncident, draw, switch_on
from faultline.lab.shop.layout import SERVICES
from faultline.lab.shop.running import PROXY, SHOPPERS, summary
from tests.connectors.local_http import LocalServer, Reply
from tests.lab.shop.started_shop import COLLECTOR, StartedShop, started_shop

NEEDS_A_STORE = {"slow_query", "database_lock", "cache_flush"}
FAULTS_OF_PROCESSES = [fault for fault in FAULTS.values() if fault.name not in NEEDS_A_STORE]
SHARES = {"error_share", "refuse_share", "leaked_connections", "loss"}
SEEDS = range(4)
"""Some faults throw dice for what they do: four throws show each side of them."""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[StartedShop]:
    with LocalServer() as prometheus, started_shop(tmp_path, prometheus.url) as shop:
        prometheus.on("/-/reload", Reply())
        yield shop


def touched(target: str, name: str) -> set[str]:
    """The parts of the shop that a fault of this target may change."""
    if name == "dns_failure":
        return {"names"}
    if name == "false_alarm":
        return {"rules"}
    if name == "traffic_surge":
        return {SHOPPERS}
    parts = set()
    for service in SERVICES:
        for number, cluster in enumerate(service.clusters, 1):
            if target in (service.name, cluster):
                pod = f"{service.name}-{cluster}-{number}"
                parts.add(f"{PROXY}-{pod}" if name.startswith("packet") else pod)
    return parts


@pytest.mark.parametrize("fault", FAULTS_OF_PROCESSES, ids=lambda fault: fault.name)
def test_a_fault_harms_its_target_alone_and_can_be_undone(
    fault: ShopFault, started: StartedShop
) -> None:
    healthy = started.state()
    desk = ChangeDesk(started.shop, random.Random(1), lambda _: None)
    for target in fault.targets:
        for seed in SEEDS:
            broken = switch_on(started.shop, ShopIncident(fault, target, seed), desk)
            changed = {part for part, was in healthy.items() if started.state()[part] != was}
            if fault.name == "bad_replica":
                assert len(changed) == 1
                assert changed <= {"checkout-eu-1", "checkout-eu-2"}
            else:
                assert changed == touched(target, fault.name)
            for part in changed & started.pods.levers.keys():
                levers, usual = started.pods.levers[part], healthy[part]
                assert isinstance(usual, dict)
                for lever, value in levers.items():
                    assert value == usual[lever] or value, f"{lever} is worse than usual"
                    assert lever not in SHARES or 0 <= value <= 1, "a share"
            broken.undo()
            assert started.state() == healthy


@pytest.mark.parametrize("fault", FAULTS_OF_PROCESSES, ids=lambda fault: fault.name)
def test_a_guilty_change_is_published_and_a_guilty_deploy_replaces_every_replica(
    fault: ShopFault, started: StartedShop
) -> None:
    desk = ChangeDesk(started.shop, random.Random(1), lambda _: None)
    incident = draw(started.shop, 5, fault.name)
    before = dict(started.pods.versions)
    broken = switch_on(started.shop, incident, desk)
    assert [change.id for change in desk.made] == ([broken.change] if fault.changed else [])
    assert (broken.change == NO_CHANGE) == (fault.changed is None)
    replaced = {name for name, version in started.pods.versions.items() if version != before[name]}
    if fault.changed == "deploy":
        assert replaced == {pod.name for pod in started.shop.pods_of(incident.target)}
        assert {started.pods.versions[name] for name in replaced} == {desk.version(incident.target)}
        assert desk.version(incident.target) in desk.made[0].title
    else:
        assert not replaced
    assert [(change.service, change.kind) for change in desk.made] == (
        [(incident.target, fault.changed)] if fault.changed else []
    )


def test_what_resolves_is_the_proxy_where_there_is_one(started: StartedShop) -> None:
    pods = started.shop.pods
    names = started.names()
    assert set(names) == {service.name for service in SERVICES}
    assert names["payments"] == {
        "eu": [pods["proxy-payments-eu-1"].port],
        "us": [pods["proxy-payments-us-2"].port],
    }
    assert names["catalog"]["eu"] == [pods["catalog-eu-1"].port, pods["catalog-eu-2"].port]
    for name in ("payments-eu-1", "payments-us-2"):
        assert pods[f"proxy-{name}"].target == pods[name].port


def test_prometheus_scrapes_ours_with_their_place_and_nothing_of_the_provider(
    started: StartedShop,
) -> None:
    scraped = {}
    for group in started.targets():
        labels = group["labels"]
        place = (labels["service"], labels.get("pod"))
        scraped[place] = (group["targets"], labels["cluster"], labels.get("__metrics_path__"))
    pods = started.shop.pods
    exporter = [f"127.0.0.1:{pods['exporter'].port}"]
    expected: dict[tuple[str, str | None], tuple[list[str], str, str | None]] = {
        ("shop-redis", None): (exporter, "eu", "/redis"),
        ("shop-db", None): (exporter, "eu", "/postgres"),
    }
    for pod in pods.values():
        if pod.program == "service" and pod.service != "bank":
            address = [f"127.0.0.1:{pod.port}"]
            expected[pod.service, pod.name] = (address, pod.cluster, None)
    assert scraped == expected


def test_services_send_spans_and_the_provider_does_not(started: StartedShop) -> None:
    pods = started.shop.pods.values()
    assert summary(pods) == "12 services in 18 processes"
    traced = {pod.service for pod in pods if pod.collector == COLLECTOR}
    assert traced == {service.name for service in SERVICES} - {"bank"}
    assert {pod.sampled for pod in started.shop.pods_of("web")} == {0.1}


def test_what_died_is_reported_once_and_processes_are_guarded(started: StartedShop) -> None:
    started.shop.died.clear()
    assert started.shop.refresh() == ["web-eu-1 ended with 9"]
    started.shop.guard(41, 42)
    assert started.pods.commands[-2:] == [{"guard": 41}, {"guard": 42}]
    assert started.shop.refresh() == ["web-eu-1 ended with 9"] * 3


def test_the_small_shop_needs_no_store(tmp_path: Path) -> None:
    with started_shop(tmp_path, "http://127.0.0.1:9", small=True) as started:
        assert summary(started.shop.pods.values()) == "3 services in 7 processes"
        assert set(started.names()) == {"web", "checkout", "payments"}
        assert {group["labels"]["service"] for group in started.targets()} == set(started.names())
        assert {pod.sampled for pod in started.shop.pods_of("web")} == {0.5}
