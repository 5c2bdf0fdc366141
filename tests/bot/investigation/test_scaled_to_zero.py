"""A database that was scaled to zero is found behind the service that fails: nobody has told who
calls whom, and only the service's own environment and log lines name the host."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from faultline.analysis.case.folder import Case, read_case, read_diagnosis
from faultline.analysis.vocabulary import Alert, Diagnosis
from faultline.bot.investigation.analyzing import write_answer
from faultline.bot.investigation.steps import InvestigationSteps
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.runtime.process_pool import ProcessPool
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.store import Store
from faultline.connectors.shared.contract.base import Connector
from faultline.connectors.vendors.kubernetes import CONNECTOR as KUBERNETES
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from tests.connectors.conftest import ALERT_AT, ONSET, OpenMetrics, running_prometheus
from tests.connectors.kubernetes_objects import (
    SPACE,
    Object,
    container,
    listed,
    meta,
    node,
    owned,
    pod,
    replica_set,
    template,
    workload,
    written_log,
)
from tests.connectors.local_http import LocalServer
from tests.connectors.stand_ins.kubernetes import GROUPS, STATE_GROUPS, TOKEN
from tests.databases import store_engine

REFUSED = "dial tcp 10.0.3.7:5432: connect: connection refused (host=postgres port=5432)"
POD = "backend-7d9f8c6b5d-x2x4b"


def objects() -> dict[str, list[Object]]:
    """A Deployment that names its database, and the StatefulSet of that, without replicas."""
    env = [{"name": "DB_HOST", "value": "postgres"}, {"name": "DB_PORT", "value": "5432"}]
    backend = template("backend", "registry.example.com/backend:4", "512Mi", env)
    postgres = workload("StatefulSet", "postgres", template("postgres", "postgres:16", "1Gi"))
    postgres["spec"]["replicas"] = 0
    postgres["status"] = {"replicas": 0}
    written = (ONSET - timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    postgres["metadata"]["managedFields"] = [
        {
            "manager": "kubectl",
            "operation": "Update",
            "time": written,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:replicas": {}}},
        }
    ]
    port = {"port": 5432, "targetPort": 5432, "protocol": "TCP"}
    service = {"metadata": meta("postgres"), "spec": {"selector": {"app": "postgres"}}}
    service["spec"] |= {"ports": [port], "clusterIP": "10.0.3.7", "type": "ClusterIP"}
    replicas = replica_set("backend", "7d9f8c6b5d", 1, backend, ALERT_AT - timedelta(days=9))
    running = pod(POD, "backend", "node-1", [container()], ready=False)
    running["metadata"]["ownerReferences"] = owned("ReplicaSet", "backend-7d9f8c6b5d")
    return {
        "deployments": [workload("Deployment", "backend", backend)],
        "statefulsets": [postgres],
        "replicasets": [replicas],
        "pods": [running],
        "services": [service],
    }


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer() as running:
        yield running


@pytest.fixture
def cluster(server: LocalServer) -> Connector:
    held = objects()
    for resource, group in {**GROUPS, **STATE_GROUPS}.items():
        path = f"{group}/namespaces/{SPACE}/{resource}"
        server.on(path, listed(held.get(resource, [])))
    server.on("/api/v1/namespaces", listed([{"metadata": meta(SPACE, space=None)}]))
    server.on("/apis/events.k8s.io/v1/namespaces/default/events", listed([]))
    server.on("/api/v1/nodes", listed([node("node-1")]))
    lines = [(ONSET + timedelta(seconds=10 * n), f"ERROR {REFUSED}") for n in range(60)]
    server.on(f"/api/v1/namespaces/{SPACE}/pods/{POD}/log", written_log(lines))
    given = {"kubernetes": {"url": server.url, "token": TOKEN, "namespaces": [SPACE]}}
    connector = KUBERNETES.configured(Settings.model_validate(given))
    assert connector is not None
    return connector


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The requests of the service, as its own library counts them."""
    written = OpenMetrics()
    counted = {"200": 0.0, "500": 0.0}
    for step in range(-150 * 2, 15 * 2):
        at = int((ONSET + timedelta(seconds=30 * step)).timestamp())
        failing = 0.9 if step >= 0 else 0.001
        counted["200"] += 900 * (1 - failing)
        counted["500"] += 900 * failing
        for code, value in counted.items():
            labels = f'job="backend",namespace="{SPACE}",code="{code}"'
            written.add("http_requests_total", "counter", labels, value, at)
    with running_prometheus(tmp_path_factory.mktemp("history"), written.finished()) as running:
        yield running.url


@pytest.fixture
def context(
    tmp_path: Path, pool: ProcessPool, cluster: Connector, metrics: str
) -> Iterator[WorkerContext]:
    engine = store_engine(f"sqlite:///{tmp_path}/faultline.sqlite")
    yield WorkerContext(
        settings=Settings(),
        store=Store(engine),
        cases=CaseStore(tmp_path / "cases"),
        connectors=[PrometheusConnector(metrics), cluster],
        reply_targets=[],
        pool=pool,
    )
    engine.dispose()


def test_the_trail_leads_from_the_failing_service_to_the_database(context: WorkerContext) -> None:
    labels = {"namespace": SPACE, "alertname": "BackendErrors"}
    alert = Alert(
        source="alertmanager",
        title="BackendErrors",
        started_at=ALERT_AT,
        service="backend",
        labels=labels,
    )
    name = context.store.accept(alert, now=ALERT_AT).investigation_id
    assert name is not None

    async def story() -> None:
        steps = InvestigationSteps(context)
        opened = await steps.open(name)
        for connector in opened["connectors"]:
            await steps.collect(name, connector, opened)
        await steps.assemble(name, opened)
        await steps.analyze(name)

    asyncio.run(story())
    with context.cases.checkout(name) as folder:
        case, diagnosis = read_case(folder), read_diagnosis(folder)
        headline = write_answer(folder).report.headline
    check(case, diagnosis, headline)


def check(case: Case, diagnosis: Diagnosis, headline: str) -> None:
    subjects = {lead.subject for followed in case.rounds.rounds for lead in followed.leads}
    assert "postgres" in subjects, case.rounds
    facts = set(case.states.select("kind", "name", "fact").iter_rows())
    assert ("StatefulSet", "postgres", "scaled_to_zero") in facts
    first = diagnosis.first_cause
    assert first is not None
    assert first.subject == "postgres"
    assert "postgres is scaled to zero" in headline
