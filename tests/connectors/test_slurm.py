"""The connector of Slurm over real HTTP, before answers that satisfy the published descriptions of
three versions: what a job's end, its wait and its nodes say."""

from __future__ import annotations

import asyncio
import gzip
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Alert, JobIdentity
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Check, Collected, Request, collect_from
from faultline.connectors.vendors.slurm import CONNECTOR
from faultline.connectors.vendors.slurm.answers import node_names
from faultline.connectors.vendors.slurm.connector import VERSIONS, SlurmConnector
from tests.connectors.collected_cases import diagnosed_request
from tests.connectors.conftest import ALERT_AT, ONSET, request_for
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins import slurm as stand_in

PUBLISHED = ("v0.0.42", "v0.0.44", "v0.0.45")


def connector(server: LocalServer, **own: Any) -> SlurmConnector:
    """As the settings build it."""
    values = stand_in.settings(server.url)
    values["slurm"] |= own
    built = CONNECTOR.configured(Settings.model_validate(values))
    assert isinstance(built, SlurmConnector)
    return built


def collect_now(own: SlurmConnector, request: Request) -> Collected:
    return asyncio.run(collect_from(own, request))


def checked(own: SlurmConnector) -> Check:
    return asyncio.run(own.check())


def asked_for(folder: Path, job: str | None = stand_in.NAME, **identity: Any) -> Request:
    """An alert about the job, which may know its number and its hosts."""
    alert = Alert(source="test", title="llm-1 is slow", started_at=ALERT_AT, service=job)
    request = request_for(folder, services=(job,) if job else (), job=job, alert=alert)
    training = JobIdentity(name=job, **identity) if job else None
    scope = request.scope.model_copy(update={"training": training})
    return Request(request.alert, scope, folder)


def rows(found: Collected) -> list[tuple[str, str, str, str | None]]:
    """Kind, name, fact and value of each row."""
    table = conform(found.tables["states"], "states", "states")
    assert set(table["service"]) == {stand_in.NAME}
    return sorted(table.select("kind", "name", "fact", "value").rows())


def reasons(found: Collected) -> list[str]:
    return [gap.reason for gap in found.missing]


def test_a_lost_node_is_why_the_job_was_requeued(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    found = collect_now(connector(server), asked_for(tmp_path))
    assert found.missing == ()
    assert rows(found) == [
        ("Node", "gpu-07", "node_drained", f"{stand_in.DRAINED} (IDLE+DRAIN)"),
        ("Slurm job", "4711", "job_lost_node", "gpu-07"),
        ("Slurm job", "4711", "job_requeued", "requeued once"),
    ]
    diagnosis = diagnosed_request(tmp_path, asked_for(tmp_path), connector(server))
    assert diagnosis.causes[0].subject == "gpu-07"
    sentences = [one.sentence for one in diagnosis.findings]
    drained = f"Node gpu-07 is drained and takes no new jobs: {stand_in.DRAINED} (IDLE+DRAIN)."
    assert drained in sentences
    assert "Slurm job 4711 ended because its node gpu-07 failed." in sentences


def test_a_job_is_found_by_its_number_or_by_its_name(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    collect_now(connector(server), asked_for(tmp_path, slurm_job_id="4711"))
    collect_now(connector(server, cluster="hpc"), asked_for(tmp_path))
    first, second = (a.query for a in server.asked if a.path.startswith("/slurmdb"))
    assert first["step"] == ["4711"]
    assert second["job_name"] == ["llm-1"]
    assert second["cluster"] == ["hpc"]
    window = request_for(tmp_path).scope
    assert int(first["start_time"][0]) == window.events_from.timestamp()
    assert int(first["end_time"][0]) == window.incident.end.timestamp()
    assert {a.headers["Authorization"] for a in server.asked} == {f"Bearer {'t' * 40}"}


def test_an_alert_without_a_job_asks_nothing(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    found = collect_now(connector(server), asked_for(tmp_path, job=None))
    assert found == Collected()
    assert server.asked == []


@pytest.mark.parametrize(
    ("job", "fact", "value"),
    [
        (
            stand_in.job(["FAILED"], exit_code=stand_in.ended(1), restart_cnt=2),
            "job_failed",
            "exit code 1, requeued 2 times",
        ),
        (
            stand_in.job(["FAILED"], exit_code=stand_in.ended(signal=9), reason="RaisedSignal"),
            "job_failed",
            "signal 9, RaisedSignal",
        ),
        (stand_in.job(["TIMEOUT"], limit=720), "job_out_of_time", "720 min"),
        (stand_in.job(["OUT_OF_MEMORY"]), "killed_for_memory", "exit code 0"),
        (stand_in.job(["PREEMPTED"]), "job_preempted", None),
        (stand_in.job(["CANCELLED"], kill_request_user="ana"), "job_cancelled", "ana"),
        (
            stand_in.job(["LAUNCH_FAILED"], reason="JobLaunchFailure"),
            "job_failed",
            "LAUNCH_FAILED, JobLaunchFailure",
        ),
        (
            stand_in.job(["PENDING"], end=None, nodes="None assigned", reason="Resources"),
            "unschedulable",
            "Resources",
        ),
    ],
)
def test_each_bad_end_is_a_fact(
    server: LocalServer, tmp_path: Path, job: dict[str, Any], fact: str, value: str | None
) -> None:
    stand_in.serve(server, jobs=[job])
    found = rows(collect_now(connector(server), asked_for(tmp_path)))
    assert ("Slurm job", "4711", fact, value) in found


@pytest.mark.parametrize(
    "job",
    [
        stand_in.job(["COMPLETED"]),
        stand_in.job(["RUNNING"], end=None, nodes="gpu-05"),
        stand_in.job(["PENDING"], end=None, nodes="", partition="", reason="Priority"),
    ],
)
def test_a_job_that_runs_or_waits_its_turn_says_nothing(
    server: LocalServer, tmp_path: Path, job: dict[str, Any]
) -> None:
    job["nodes"] = job["nodes"].replace(stand_in.NODES, "gpu-05")
    stand_in.serve(server, jobs=[job])
    found = collect_now(connector(server), asked_for(tmp_path))
    assert found.missing == ()
    assert "states" not in found.tables


def test_a_waiting_job_is_told_of_the_unusable_nodes_of_its_partition(
    server: LocalServer, tmp_path: Path
) -> None:
    waiting = stand_in.job(["PENDING"], end=None, nodes="", reason="ReqNodeNotAvail")
    stand_in.serve(server, jobs=[waiting])
    found = rows(collect_now(connector(server), asked_for(tmp_path)))
    # A node of another partition and one that is switched off for want of work are none of its.
    assert [name for kind, name, *_ in found if kind == "Node"] == ["gpu-07", "gpu-30"]


def test_hosts_that_the_alert_names_are_looked_at(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server, jobs=[stand_in.job(["RUNNING"], end=None, nodes="gpu-05")])
    found = rows(collect_now(connector(server), asked_for(tmp_path, node="gpu-30")))
    assert [row[:3] for row in found] == [("Node", "gpu-30", "node_not_ready")]


def test_without_an_accounting_the_controller_is_asked(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    path = f"/slurm/{stand_in.VERSION}"
    refusal = Reply(stand_in.refused("Unable to connect to database"), status=500)
    server.on(f"/slurmdb/{stand_in.VERSION}/jobs/", refusal)
    update = {"last_backfill": stand_in.number(1), "last_update": stand_in.number(1)}
    jobs = [stand_in.controlled(["FAILED"]), stand_in.controlled(["FAILED"], name="other")]
    server.on(f"{path}/jobs/", Reply(stand_in.answer(jobs=jobs, **update)))
    found = collect_now(connector(server), asked_for(tmp_path))
    failed = "exit code 1, NonZeroExitCode, requeued 2 times"
    assert ("Slurm job", "4711", "job_failed", failed) in rows(found)
    assert len(rows(found)) == 2
    assert any("the controller was asked instead" in reason for reason in reasons(found))


def test_an_error_with_status_200_is_a_gap(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    refusal = Reply(stand_in.refused("Access/permission denied"))
    server.on(f"/slurmdb/{stand_in.VERSION}/jobs/", refusal)
    found = collect_now(connector(server), asked_for(tmp_path, hosts=("gpu-07",)))
    assert any("Access/permission denied" in reason for reason in reasons(found))
    assert [row[1] for row in rows(found)] == ["gpu-07"]


def test_a_job_that_slurm_does_not_know_is_a_gap(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server, jobs=[])
    found = collect_now(connector(server), asked_for(tmp_path))
    assert reasons(found) == ["Slurm knows no job llm-1 in these windows"]


def test_what_a_node_says_is_cut_and_hosts_are_bounded(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server, jobs=[stand_in.job(["RUNNING"], end=None, nodes="x[0-999999999]")])
    nodes = [stand_in.node("x0", ["DOWN"], "y" * 5000 + "\x1b[31m\n")]
    content = stand_in.answer(nodes=nodes, last_update=stand_in.number(1))
    server.on(f"/slurm/{stand_in.VERSION}/nodes/", Reply(content))
    ((_, name, fact, value),) = rows(collect_now(connector(server), asked_for(tmp_path)))
    assert (name, fact) == ("x0", "node_not_ready")
    assert value is not None
    assert len(value) <= 200
    assert value.isprintable()


def test_host_lists_are_read_as_slurm_writes_them() -> None:
    assert node_names("gpu[01-03,07],login1", 9) == ["gpu01", "gpu02", "gpu03", "gpu07", "login1"]
    assert node_names("r[1-2]n[09-10]", 9) == ["r1n09", "r1n10", "r2n09", "r2n10"]
    assert node_names("", 9) == []
    assert node_names("a[1-999999999]", 2) == ["a1", "a2"]
    assert node_names("a[", 2) == ["a["]


def test_check_names_the_version_and_how_many_nodes(server: LocalServer) -> None:
    stand_in.serve(server, version="v0.0.42")
    check = checked(connector(server))
    assert check.ok
    assert "slurmrestd v0.0.42" in check.line
    assert "8 nodes can be read" in check.line
    server.refusal = Reply(status=401)
    assert not checked(connector(server)).ok


def test_a_server_of_an_unknown_version_is_told(server: LocalServer) -> None:
    check = checked(connector(server))
    assert not check.ok
    assert f"none of {', '.join(VERSIONS)}" in check.line
    assert "set slurm.version" in check.line


@pytest.mark.parametrize("version", PUBLISHED)
def test_what_is_asked_and_answered_is_as_published(
    server: LocalServer, tmp_path: Path, shared: Path, version: str
) -> None:
    digits = version.rpartition(".")[2]
    raw = (shared / "specs" / f"slurm-v00{digits}.json.gz").read_bytes()
    spec: dict[str, Any] = json.loads(gzip.decompress(raw))
    stand_in.serve(server, version=version)
    own = connector(server)
    found = collect_now(own, asked_for(tmp_path))
    assert len(rows(found)) == 3
    collect_now(own, asked_for(tmp_path, slurm_job_id="4711"))
    asked = [one for one in server.asked if version in one.path]
    assert len(asked) >= 6
    for one in asked:
        assert set(one.query) <= _parameters(spec, one)
    contents = {
        f"/slurmdb/{version}/jobs/": stand_in.answer(jobs=[stand_in.lost(), stand_in.requeued()]),
        f"/slurm/{version}/nodes/": stand_in.answer(
            nodes=stand_in.nodes(), last_update=stand_in.number(1)
        ),
        f"/slurm/{version}/ping/": stand_in.answer(pings=[stand_in.ping()]),
        f"/slurm/{version}/jobs/": stand_in.answer(
            jobs=[stand_in.controlled(["FAILED"])],
            last_backfill=stand_in.number(1),
            last_update=stand_in.number(1),
        ),
    }
    for path, content in contents.items():
        jsonschema.validate(content, _answer(spec, path))


def _parameters(spec: dict[str, Any], asked: Asked) -> set[str]:
    described = spec["paths"][asked.path]["get"].get("parameters", [])
    return {one["name"] for one in described if one["in"] == "query"}


def _answer(spec: dict[str, Any], path: str) -> dict[str, Any]:
    """The schema of the answer, in which unknown keys are an error."""
    content = spec["paths"][path]["get"]["responses"]["200"]["content"]
    schemas = {}
    for name, schema in spec["components"]["schemas"].items():
        schemas[name] = _closed(schema)
    return {**content["application/json"]["schema"], "components": {"schemas": schemas}}


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema["properties"]:
        closed["additionalProperties"] = False
    return closed


def test_a_fact_that_began_before_the_windows_says_since_when(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    table = collect_now(connector(server), asked_for(tmp_path)).tables["states"]
    by_fact = {row["fact"]: row for row in table.iter_rows(named=True)}
    assert by_fact["node_drained"]["since"] == ONSET
    assert by_fact["job_lost_node"]["place"] == "gpu-07"
    assert by_fact["job_requeued"]["since"] == ONSET + timedelta(minutes=3)
