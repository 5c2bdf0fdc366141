"""The connector of Ray over real HTTP, before answers that satisfy the published description of the
Jobs API."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Alert, JobIdentity
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Check, Collected, Request, collect_from
from faultline.connectors.vendors.ray import CONNECTOR
from faultline.connectors.vendors.ray.connector import MOST_NODES, RayConnector
from tests.connectors.collected_cases import diagnosed_request
from tests.connectors.conftest import ALERT_AT, ONSET, request_for
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import ray as stand_in


def connector(server: LocalServer, **jobs: Any) -> RayConnector:
    """As the settings build it."""
    values = stand_in.settings(server.url)
    values["ray"]["public_url"] = "https://ray.example.com"
    built = CONNECTOR.configured(Settings.model_validate({**values, "jobs": jobs}))
    assert isinstance(built, RayConnector)
    return built


def asked_for(folder: Path, job: str | None = stand_in.NAME, **identity: Any) -> Request:
    """An alert about the job."""
    alert = Alert(source="test", title="llm-1 stands still", started_at=ALERT_AT, service=job)
    request = request_for(folder, services=(job,) if job else (), job=job, alert=alert)
    training = JobIdentity(name=job, **identity) if job else None
    scope = request.scope.model_copy(update={"training": training})
    return Request(request.alert, scope, folder)


def collect(own: RayConnector, request: Request) -> Collected:
    return asyncio.run(collect_from(own, request))


def checked(own: RayConnector) -> Check:
    return asyncio.run(own.check())


def rows(found: Collected) -> list[tuple[str, str, str, str | None]]:
    """Kind, name, fact and value of each row."""
    table = conform(found.tables["states"], "states", "states")
    assert set(table["service"]) == {stand_in.NAME}
    return sorted(table.select("kind", "name", "fact", "value").rows())


def test_a_failed_job_and_the_node_that_died_are_told(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    found = collect(connector(server), asked_for(tmp_path))
    assert found.missing == ()
    assert rows(found) == [
        ("Node", "gpu-07", "node_not_ready", stand_in.DIED),
        ("Ray job", "raysubmit_1", "job_failed", f"exit code 3, {stand_in.REASON}"),
    ]
    assert set(found.tables["states"]["since"]) == {ONSET}
    links = {item.link for item in found.items}
    assert links == {"https://ray.example.com/#/jobs", "https://ray.example.com/#/cluster"}
    assert {a.headers["Authorization"] for a in server.asked} == {f"Bearer {'r' * 40}"}
    assert server.methods == {"GET"}
    diagnosis = diagnosed_request(tmp_path, asked_for(tmp_path), connector(server))
    assert diagnosis.causes[0].subject == "gpu-07"


def test_an_alert_without_a_job_asks_nothing(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    assert collect(connector(server), asked_for(tmp_path, job=None)) == Collected()
    assert server.asked == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"submission_id": "llm-1"}, True),
        ({"metadata": {"job_name": "LLM-1"}}, True),
        ({"metadata": {"job_name": "llm-1-v2"}}, True),
        ({"submission_id": "run-77"}, True),
        ({"metadata": {"job_name": "llm-10"}}, False),
        ({"metadata": {"owner": "llm-1"}}, False),
    ],
)
def test_a_job_is_known_by_its_name_its_aliases_and_its_run(
    server: LocalServer, tmp_path: Path, given: dict[str, Any], expected: bool
) -> None:
    stand_in.serve(server, [stand_in.job("FAILED", end=ONSET, **given)])
    own = connector(server, **{"llm-1": {"aliases": ["llm-1-v*"]}})
    found = collect(own, asked_for(tmp_path, run="run-77"))
    jobs = [row for row in rows(found) if row[0] == "Ray job"]
    assert bool(jobs) == expected
    assert bool(found.missing) != expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (stand_in.job("STOPPED", end=ONSET), [("job_cancelled", None)]),
        (stand_in.job("PENDING", message="It may be waiting for resources"),
         [("unschedulable", "It may be waiting for resources")]),
        (stand_in.job("RUNNING"), []),
        (stand_in.job("SUCCEEDED", end=ONSET), []),
        (stand_in.job("FAILED", start=ALERT_AT - timedelta(hours=30),
                      end=ALERT_AT - timedelta(hours=20)), []),
        (stand_in.job("FAILED", start=ALERT_AT + timedelta(hours=1)), []),
    ],
)  # fmt: skip
def test_each_state_of_a_job_in_the_window_says_what_it_is(
    server: LocalServer,
    tmp_path: Path,
    given: dict[str, Any],
    expected: list[tuple[str, str | None]],
) -> None:
    given["metadata"] = {"job_name": stand_in.NAME}
    stand_in.serve(server, [given])
    found = rows(collect(connector(server), asked_for(tmp_path)))
    assert [row[2:] for row in found if row[0] == "Ray job"] == expected


def test_one_call_that_fails_is_a_gap_and_the_other_stands(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    server.on("/api/v0/nodes", Reply(stand_in.REFUSED, status=500))
    found = collect(connector(server), asked_for(tmp_path))
    assert [gap.query for gap in found.missing] == ["/api/v0/nodes"]
    assert [row[0] for row in rows(found)] == ["Ray job"]
    stand_in.serve(server)
    server.on("/api/jobs/", Reply(status=403))
    found = collect(connector(server), asked_for(tmp_path))
    assert [gap.query for gap in found.missing] == ["/api/jobs/"]
    assert [row[0] for row in rows(found)] == ["Node"]


def test_nodes_that_were_left_out_are_said(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    server.on("/api/v0/nodes", Reply(stand_in.listed(stand_in.nodes(), total=12_000)))
    found = collect(connector(server), asked_for(tmp_path))
    assert [item.cut for item in found.items if item.cut] == ["11996 of 12000 nodes left out"]
    (asked,) = [a for a in server.asked if a.path == "/api/v0/nodes"]
    assert asked.query == {"detail": ["1"], "limit": [str(MOST_NODES)]}


def test_check_tells_the_version(server: LocalServer) -> None:
    stand_in.serve(server)
    check = checked(connector(server))
    assert check.ok
    assert "Ray 2.60.0" in check.line
    server.refusal = Reply(status=401)
    assert not checked(connector(server)).ok


def test_jobs_are_as_published(shared: Path) -> None:
    spec = yaml.safe_load((shared / "specs" / "ray-jobs.yaml").read_text())
    assert {"/api/jobs", "/api/version"} <= set(spec["paths"])
    schema = {**spec["components"]["schemas"]["JobDetails"], "components": spec["components"]}
    for one in (stand_in.failed(), stand_in.job("RUNNING"), stand_in.job("PENDING")):
        # Ray writes an absent value as null, which the description leaves unsaid.
        known = {key: value for key, value in one.items() if value is not None}
        newer = set(known) - set(schema["properties"])
        assert newer <= {"driver_exit_code"}
        jsonschema.validate(known, schema)
