"""Training jobs as objects of their operators: what the connector makes of what Kubeflow, JobSet,
Kueue, Volcano and KubeRay write, in objects that satisfy their published CRDs."""

from __future__ import annotations

import asyncio
import gzip
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.vendors.kubernetes import CONNECTOR
from faultline.connectors.vendors.kubernetes.job_objects import JOB_KINDS
from tests.connectors.collected_cases import diagnosed_request
from tests.connectors.conftest import ALERT_AT, ONSET, request_for
from tests.connectors.kubernetes_objects import SPACE, Object, listed, meta, refused, utc
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins.kubernetes import GROUPS, STATE_GROUPS, TOKEN

SERVED = {
    "trainer.kubeflow.org": "v1alpha1",
    "kubeflow.org": "v2beta1",
    "jobset.x-k8s.io": "v1alpha2",
    "kueue.x-k8s.io": "v1beta1",
    "batch.volcano.sh": "v1alpha1",
    "ray.io": "v1",
}
AT = utc(ONSET)
PREEMPTED = "Preempted to accommodate a workload of higher priority"
QUOTA = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu"


def condition(type: str, status: str, reason: str, message: str, **more: Any) -> Object:
    return {
        "type": type,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": AT,
        **more,
    }


def job(name: str, status: Object, spec: Object | None = None, **more: Any) -> Object:
    """An object of any of the kinds; `spec` is what its CRD requires."""
    made = {"metadata": meta(name, at=ALERT_AT - timedelta(hours=5), **more), "status": status}
    return {**made, "spec": spec} if spec is not None else made


def failed(reason: str, message: str) -> Object:
    return {"conditions": [condition("Failed", "True", reason, message)]}


def workload(*conditions: Object, name: str = "trainjob-llm-1-9f2c1") -> Object:
    """Kueue's, for the TrainJob llm-1."""
    api = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "uid": "u-1"}
    owner = [{**api, "kind": "TrainJob", "name": "llm-1"}]
    return job(name, {"conditions": list(conditions)}, {}, ownerReferences=owner)


def serve(server: LocalServer, objects: dict[str, list[Object]], served: dict[str, str]) -> None:
    """A cluster with these groups; the namespace holds nothing else."""
    groups = []
    for name, version in served.items():
        known = {"groupVersion": f"{name}/{version}", "version": version}
        groups.append({"name": name, "versions": [known], "preferredVersion": known})
    server.on("/apis", Reply({"kind": "APIGroupList", "groups": groups}))
    for resource, group in {**GROUPS, **STATE_GROUPS}.items():
        server.on(f"{group}/namespaces/{SPACE}/{resource}", listed([]))
    server.on("/api/v1/namespaces", listed([{"metadata": meta(SPACE, space=None)}]))
    server.on("/apis/events.k8s.io/v1/namespaces/default/events", listed([]))
    server.on("/api/v1/nodes", listed([]))
    for kind in JOB_KINDS:
        if kind.group in served:
            path = f"/apis/{kind.group}/{served[kind.group]}/namespaces/{SPACE}/{kind.resource}"
            server.on(path, listed(objects.get(kind.resource, [])))


def configured(server: LocalServer) -> Any:
    cluster = {"url": server.url, "token": TOKEN, "logs": False, "namespaces": [SPACE]}
    given = {"kubernetes": cluster, "jobs": {"llm-1": {"pods": ["llm-1-*"]}}}
    return CONNECTOR.configured(Settings.model_validate(given))


def collect(
    server: LocalServer,
    folder: Path,
    objects: dict[str, list[Object]],
    served: dict[str, str] | None = None,
) -> Collected:
    """What is collected for an alert about the job."""
    serve(server, objects, SERVED if served is None else served)
    alert = Alert(source="test", title="llm-1 stands still", started_at=ALERT_AT, service="llm-1")
    request = request_for(folder, services=("llm-1",), job="llm-1", alert=alert)
    return asyncio.run(collect_from(configured(server), request))


def rows(found: Collected) -> list[tuple[str, str, str, str | None]]:
    """Kind, name, fact and value of every row."""
    table = conform(found.tables["states"], "states", "states")
    assert set(table["service"]) <= {"llm-1"}
    return sorted(table.select("kind", "name", "fact", "value").rows())


OBJECTS: list[tuple[str, Object, tuple[str, str, str, str | None]]] = [
    (
        "trainjobs",
        job("llm-1", failed("TrainJobJobsFailed", "node exited with 1"), {"runtimeRef": {}}),
        ("TrainJob", "llm-1", "job_failed", "TrainJobJobsFailed: node exited with 1"),
    ),
    (
        "mpijobs",
        job("llm-1", {"conditions": [condition("Restarting", "True", "Evicted", "pod evicted")]}),
        ("MPIJob", "llm-1", "job_requeued", "Evicted: pod evicted"),
    ),
    (
        "jobsets",
        job("llm-1", {"restarts": 3, "conditions": []}, {}),
        ("JobSet", "llm-1", "job_requeued", "3 times"),
    ),
    (
        "workloads",
        workload(condition("QuotaReserved", "False", "Pending", QUOTA)),
        ("Workload", "trainjob-llm-1-9f2c1", "unschedulable", f"Pending: {QUOTA}"),
    ),
    (
        "workloads",
        workload(condition("Evicted", "True", "Preempted", PREEMPTED)),
        ("Workload", "trainjob-llm-1-9f2c1", "job_preempted", f"Preempted: {PREEMPTED}"),
    ),
    (
        "workloads",
        workload(condition("Evicted", "True", "PodsReadyTimeout", "Exceeded the timeout")),
        (
            "Workload",
            "trainjob-llm-1-9f2c1",
            "job_requeued",
            "PodsReadyTimeout: Exceeded the timeout",
        ),
    ),
    (
        "rayjobs",
        job(
            "llm-1",
            {
                "jobStatus": "FAILED",
                "jobDeploymentStatus": "Failed",
                "reason": "AppFailed",
                "message": "exit code 1",
                "endTime": AT,
            },
            {},
        ),
        ("RayJob", "llm-1", "job_failed", "AppFailed: exit code 1"),
    ),
]


@pytest.mark.parametrize(("resource", "given", "expected"), OBJECTS)
def test_what_an_operator_writes_is_a_fact_of_the_job(
    server: LocalServer,
    tmp_path: Path,
    resource: str,
    given: Object,
    expected: tuple[str, str, str, str | None],
) -> None:
    found = collect(server, tmp_path, {resource: [given]})
    assert rows(found) == [expected]
    assert found.missing == ()


def test_volcanos_phases_are_read(server: LocalServer, tmp_path: Path) -> None:
    state = {"phase": "Pending", "reason": "", "message": "3/8 tasks in gang unschedulable"}
    waits = job("llm-1", {"state": {**state, "lastTransitionTime": AT}})
    found = collect(server, tmp_path, {"jobs": [waits]})
    message = "3/8 tasks in gang unschedulable"
    assert rows(found) == [("VolcanoJob", "llm-1", "unschedulable", message)]
    ended = job("llm-1", {"state": {"phase": "Aborted", "lastTransitionTime": AT}})
    odd = job("llm-1", {"state": "Aborted"})
    found = collect(server, tmp_path, {"jobs": [ended, odd]})
    assert rows(found) == [("VolcanoJob", "llm-1", "job_failed", "Aborted")]


def test_a_job_that_kueue_holds_back_is_told_of_once(server: LocalServer, tmp_path: Path) -> None:
    suspended = {"conditions": [condition("Suspended", "True", "Suspended", "is suspended")]}
    trainjob = job("llm-1", suspended, {"runtimeRef": {}})
    waits = workload(condition("QuotaReserved", "False", "Pending", QUOTA))
    found = collect(server, tmp_path, {"trainjobs": [trainjob], "workloads": [waits]})
    assert [row[2] for row in rows(found)] == ["unschedulable"]
    found = collect(server, tmp_path, {"trainjobs": [trainjob]})
    assert [row[2] for row in rows(found)] == ["job_suspended"]


def test_jobs_that_are_well_and_those_of_others_say_nothing(
    server: LocalServer, tmp_path: Path
) -> None:
    running = {"conditions": [condition("Failed", "False", "", ""), condition("X", "True", "", "")]}
    done = [condition("Finished", "True", "Succeeded", ""), condition("Evicted", "True", "", "")]
    other = job("bert", failed("JobsFailed", "no"), {"runtimeRef": {}})
    objects = {
        "trainjobs": [job("llm-1", running, {"runtimeRef": {}}), other],
        "workloads": [workload(*done)],
    }
    found = collect(server, tmp_path, objects)
    assert rows(found) == []
    assert found.missing == ()


def test_only_what_the_cluster_serves_is_asked_for(server: LocalServer, tmp_path: Path) -> None:
    collect(server, tmp_path, {}, served={"jobset.x-k8s.io": "v1alpha2", "ray.io": "v9"})
    asked = [path for path in server.paths() if any(k.group in path for k in JOB_KINDS)]
    assert sorted(asked) == [
        f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{SPACE}/jobsets",
        f"/apis/ray.io/v9/namespaces/{SPACE}/rayjobs",
    ]


def test_a_missing_right_is_one_gap_and_the_other_lists_stand(
    server: LocalServer, tmp_path: Path
) -> None:
    jobset = job("llm-1", failed("FailedJobs", "a job failed"), {})
    serve(server, {"jobsets": [jobset]}, SERVED)
    path = f"/apis/kueue.x-k8s.io/v1beta1/namespaces/{SPACE}/workloads"
    server.on(path, refused(403, "workloads is forbidden"))
    request = request_for(tmp_path, services=("llm-1",), job="llm-1")
    found = asyncio.run(collect_from(configured(server), request))
    (gap,) = found.missing
    assert path in gap.query
    assert [row[0] for row in rows(found)] == ["JobSet"]


def test_without_discovery_there_is_a_gap(server: LocalServer, tmp_path: Path) -> None:
    serve(server, {}, SERVED)
    server.on("/apis", refused(403, "no"))
    request = request_for(tmp_path, services=("llm-1",), job="llm-1")
    found = asyncio.run(collect_from(configured(server), request))
    assert [gap.query for gap in found.missing] == ["kubectl get --raw '/apis'"]


def test_a_preempted_job_is_the_answer(server: LocalServer, tmp_path: Path) -> None:
    serve(server, {"workloads": [workload(condition("Evicted", "True", "Preempted", "x"))]}, SERVED)
    alert = Alert(source="test", title="llm-1 stands still", started_at=ALERT_AT, service="llm-1")
    request = request_for(tmp_path, services=("llm-1",), job="llm-1", alert=alert)
    diagnosis = diagnosed_request(tmp_path, request, configured(server))
    assert diagnosis.causes[0].subject == "llm-1"
    assert diagnosis.causes[0].kind == "job_preempted" or "preempted" in diagnosis.causes[0].summary


CRDS = {
    "trainjobs": ("kubeflow-trainjobs.crd.yaml.gz", "v1alpha1"),
    "jobsets": ("jobset.crd.yaml.gz", "v1alpha2"),
    "workloads": ("kueue-workloads.crd.yaml.gz", "v1beta1"),
    "rayjobs": ("kuberay-rayjobs.crd.yaml.gz", "v1"),
}


def test_the_objects_of_these_tests_are_those_of_the_published_crds(shared: Path) -> None:
    known: dict[str, Object] = {}
    for resource, (name, version) in CRDS.items():
        crd = yaml.safe_load(gzip.decompress((shared / "specs" / name).read_bytes()))
        kind = next(one for one in JOB_KINDS if one.resource == resource)
        assert (crd["spec"]["group"], crd["spec"]["names"]["plural"]) == (kind.group, resource)
        of_version = {one["name"]: one["schema"] for one in crd["spec"]["versions"]}
        assert version in kind.versions
        status = of_version[version]["openAPIV3Schema"]["properties"]["status"]
        known[resource] = _closed(status)
    text = (shared / "specs" / "kubeflow-mpijob.swagger.json").read_text()
    mpi = json.loads(text)["definitions"]
    for resource, given, _ in OBJECTS:
        if resource in known:
            jsonschema.validate(given["status"], known[resource])
        else:
            (own,) = given["status"]["conditions"]
            assert set(own) <= set(mpi["v2beta1.JobCondition"]["properties"])


def _closed(schema: Any) -> Any:
    """The schema with unknown keys refused, as a server prunes them."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        closed["additionalProperties"] = False
    return closed
