"""The connector of Ray, and the answers that its other tests give it, against a real cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.vocabulary import Alert, Scope, Window
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, Request, collect_from
from faultline.connectors.vendors.ray import CONNECTOR
from faultline.connectors.vendors.ray.connector import MOST_NODES, RayConnector
from tests.connectors.collected_cases import diagnosed_request
from tests.connectors.ray_cluster import ENDINGS, KILLED, TOKEN, RayCluster, ray_cluster
from tests.connectors.stand_ins import ray as stand_in

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    """A Ray."""
    with ray_cluster(tmp_path_factory.mktemp("ray")) as running:
        yield running


def connector(cluster: RayCluster, token: str = TOKEN) -> RayConnector:
    """As the settings build it."""
    own = {"ray": {"url": cluster.url, "token": token}}
    built = CONNECTOR.configured(Settings.model_validate(own))
    assert isinstance(built, RayConnector)
    return built


def asked_for(job: str, folder: Path) -> Request:
    """An alert of now about the job."""
    now = datetime.now(UTC)
    incident = Window(start=now - timedelta(minutes=30), end=now)
    baseline = Window(start=incident.start - timedelta(hours=2), end=incident.start)
    alert = Alert(source="test", title=f"{job} stands still", started_at=now, service=job)
    scope = Scope(incident=incident, baseline=(baseline,), services=(job,), job=job)
    return Request(alert, scope, folder)


def collect(cluster: RayCluster, job: str, folder: Path, token: str = TOKEN) -> Collected:
    return asyncio.run(collect_from(connector(cluster, token), asked_for(job, folder)))


def told_of(found: Collected, kind: str) -> list[tuple[str, str, str]]:
    """Name, fact and value."""
    table = found.tables["states"].filter(kind=kind)
    return sorted(table.select("name", "fact", "value").rows())


@pytest.mark.parametrize(
    ("name", "fact", "said"),
    [
        ("fails", "job_failed", "RuntimeError: CUDA out of memory"),
        ("is-stopped", "job_cancelled", ""),
        ("finds-no-gpu", "unschedulable", "waiting for resources"),
        ("ends-well", None, ""),
        ("runs", None, ""),
    ],
)
def test_each_job_is_told_as_it_ended(
    cluster: RayCluster, tmp_path: Path, name: str, fact: str | None, said: str
) -> None:
    found = collect(cluster, f"llm-{name}", tmp_path)
    assert found.missing == ()
    told = told_of(found, "Ray job")
    assert [row[:2] for row in told] == ([(name, fact)] if fact else [])
    assert all(said in (value or "") for _, _, value in told)


def test_the_node_that_was_killed_is_told_and_the_one_that_was_ended_is_not(
    cluster: RayCluster, tmp_path: Path
) -> None:
    found = collect(cluster, "llm-fails", tmp_path)
    [(name, fact, value)] = told_of(found, "Node")
    assert (name, fact) == (KILLED, "node_not_ready")
    assert value.startswith("Unexpected termination: ")
    [since] = found.tables["states"].filter(kind="Node")["since"]
    assert datetime.now(UTC) - since < timedelta(minutes=5)


def test_the_node_is_the_cause(cluster: RayCluster, tmp_path: Path) -> None:
    request = asked_for("llm-fails", tmp_path)
    diagnosis = diagnosed_request(tmp_path, request, connector(cluster))
    assert diagnosis.causes[0].subject == KILLED


def test_without_the_right_token_each_call_is_a_gap(cluster: RayCluster, tmp_path: Path) -> None:
    found = collect(cluster, "llm-fails", tmp_path, token="x" * 40)
    assert {gap.query for gap in found.missing} == {"/api/jobs/", "/api/v0/nodes"}
    assert found.tables == {}
    assert not asyncio.run(connector(cluster, "x" * 40).check()).ok
    check = asyncio.run(connector(cluster).check())
    assert check.ok
    assert f"{len(ENDINGS)} jobs can be read" in check.line


def test_the_stand_in_answers_as_ray_does(cluster: RayCluster) -> None:
    jobs, nodes = cluster.jobs(), cluster.nodes()
    for one in jobs.values():
        alike(one, stand_in.failed() if one["status"] == "FAILED" else stand_in.job("RUNNING"))
    for one in nodes.values():
        alike({**one, "resources_total": {}, "labels": {}}, stand_in.nodes()[1])
    alike(cluster.asked("/api/v0/nodes?detail=1").json(), stand_in.listed([]))
    alike(cluster.asked("/api/version").json(), stand_in.VERSION)


def test_ray_refuses_more_nodes_than_are_asked_for(cluster: RayCluster) -> None:
    path = f"/api/v0/nodes?detail=1&limit={MOST_NODES + 1}"
    refused = cluster.asked(path)
    assert refused.status_code == 400
    alike(refused.json(), stand_in.REFUSED)


def alike(real: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """The same fields with values of the same types, as far as both have one."""
    assert set(real) == set(ours)
    for key, value in ours.items():
        if isinstance(value, dict) and value:
            alike(real[key], value)
        elif value is not None and real[key] is not None:
            assert type(real[key]) is type(value), key
