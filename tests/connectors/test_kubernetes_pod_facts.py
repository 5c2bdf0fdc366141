"""Since when a pod does not serve, and what it waits for: its status and its containers' logs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from faultline.bot.settings import Settings
from faultline.connectors.vendors.kubernetes import CONNECTOR
from tests.connectors import kubernetes_states as broken
from tests.connectors.collected_cases import collected
from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.kubernetes_objects import SPACE, Object, container, listed, utc, written_log
from tests.connectors.local_http import LocalServer
from tests.connectors.stand_ins.kubernetes import TOKEN
from tests.connectors.test_kubernetes_states import serve, states

POD = "checkout-6b8c7d5f9-x2x4b"


def facts(server: LocalServer, folder: Path, pod: Object) -> list[dict[str, Any]]:
    """The rows about the only pod of checkout."""
    serve(server, {"deployments": [broken.deployment("checkout", 1, 0)], "pods": [pod]})
    server.on("/api/v1/nodes", listed([broken.node("node-1")]))
    given = {
        "kubernetes": {"url": server.url, "token": TOKEN},
        "services": {"checkout": {"kubernetes": [f"{SPACE}/deployment/checkout"]}},
    }
    connector = CONNECTOR.configured(Settings.model_validate(given))
    assert connector is not None
    table = states(collected(folder, connector))
    return table.filter(kind="Pod").sort("fact").rows(named=True)


def crashed(runs: timedelta, restarts: int, end: datetime) -> Object:
    """A container that waits to be started again."""
    ended = {
        "exitCode": 1,
        "reason": "Error",
        "startedAt": utc(end - runs),
        "finishedAt": utc(end),
    }
    return container(restarts, ended=ended, waiting={"reason": "CrashLoopBackOff"})


def test_a_crash_loop_began_when_the_pod_was_ready_last(
    server: LocalServer, tmp_path: Path
) -> None:
    status = crashed(timedelta(seconds=6), 5, ALERT_AT)
    (row,) = facts(server, tmp_path, broken.running("checkout", "node-1", status, ready=False))
    assert (row["fact"], row["since"]) == ("crash_loop", ONSET)


def test_a_crash_loop_is_no_older_than_its_restarts_take(
    server: LocalServer, tmp_path: Path
) -> None:
    status = crashed(timedelta(seconds=60), 2, ALERT_AT)
    pod = broken.running("checkout", "node-1", status, ready=False)
    (ready,) = (one for one in pod["status"]["conditions"] if one["type"] == "Ready")
    ready["lastTransitionTime"] = utc(ALERT_AT - timedelta(days=3))
    (row,) = facts(server, tmp_path, pod)
    assert row["since"] == ALERT_AT - timedelta(minutes=12)


def test_a_pod_waits_for_the_init_container_that_does_not_end(
    server: LocalServer, tmp_path: Path
) -> None:
    pod = waiting_for("wait-for-db", ONSET)
    path = f"/api/v1/namespaces/{SPACE}/pods/{POD}/log"
    server.on(path, written_log([(datetime.now(UTC), "nc: bad address 'db-primary'")]))
    (row,) = facts(server, tmp_path, pod)
    assert (row["fact"], row["since"]) == ("start_blocked", ONSET)
    assert row["value"] == (
        "its init container wait-for-db has not ended; its last line says "
        "\"nc: bad address 'db-primary'\""
    )


def test_a_sidecar_and_an_init_container_that_just_began_keep_no_pod_from_starting(
    server: LocalServer, tmp_path: Path
) -> None:
    pod = waiting_for("proxy", ONSET)
    pod["spec"]["initContainers"] = [{"name": "proxy", "restartPolicy": "Always"}]
    just_begun = waiting_for("copy-files", datetime.now(UTC) + timedelta(days=1))
    for one in (pod, just_begun):
        rows = facts(server, tmp_path / one["status"]["initContainerStatuses"][0]["name"], one)
        assert [row["fact"] for row in rows] == ["readiness_failing"]


def waiting_for(name: str, since: datetime) -> Object:
    """A pod whose init container has been running since then."""
    status = container(waiting={"reason": "PodInitializing"})
    pod = broken.running("checkout", "node-1", status, ready=False)
    pod["status"]["phase"] = "Pending"
    pod["status"]["conditions"].append(
        {"type": "Initialized", "status": "False", "lastTransitionTime": utc(since)}
    )
    init = {**container(), "name": name, "state": {"running": {"startedAt": utc(since)}}}
    pod["status"]["initContainerStatuses"] = [init]
    return pod
