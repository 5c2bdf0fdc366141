"""A real Ray cluster on loopback: a head, a node that is killed and one that is asked to end;
jobs of every ending, one that finds no resources, and one that runs.

The dashboard wants a token. Sockets lie in a separate folder, because their paths may not be long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from faultline.loopback.bot_process import free_port
from tests.connectors.real_servers import programs
from tests.contracts.emulators import TOOLS
from tests.debian_tools import unavailable

PROGRAM = Path(__file__).parent / "ray_nodes.py"
PYTHON = TOOLS / "ray/bin/python"
TOKEN = "r" * 40
KILLED, ASKED_TO_END = "gpu-07", "gpu-08"
GOES_ON = 'import os, time; [time.sleep(1) for _ in iter(lambda: os.path.exists("{folder}"), 0)]'
"""A job outlives its cluster, so it ends with the cluster's folder."""
ENDINGS = {
    "ends-well": ("SUCCEEDED", "print(1)"),
    "fails": ("FAILED", 'raise RuntimeError("CUDA out of memory")'),
    "is-stopped": ("STOPPED", GOES_ON),
    "finds-no-gpu": ("PENDING", "print(1)"),
    "runs": ("RUNNING", GOES_ON),
}
"""By submission: the status it ends up with, and its code."""
WANTS = {"finds-no-gpu": {"entrypoint_num_gpus": 8}}
ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": TOKEN,
    "RAY_USAGE_STATS_ENABLED": "0",
    # As on Windows and macOS, where Ray looks for no address that other machines reach.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # A node that was killed is noticed after seconds instead of half a minute.
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}


@dataclass(frozen=True)
class RayCluster:
    """Its dashboard."""

    url: str

    def asked(self, path: str, method: str = "GET", **given: Any) -> httpx.Response:
        """What it answers to one who has the token."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return httpx.request(method, self.url + path, headers=headers, timeout=60, **given)

    def jobs(self) -> Mapping[str, dict[str, Any]]:
        """By submission."""
        listed = self.asked("/api/jobs/").raise_for_status().json()
        return {one["submission_id"]: one for one in listed}

    def nodes(self) -> Mapping[str, dict[str, Any]]:
        """By name, with their details."""
        listed = self.asked("/api/v0/nodes?detail=1").raise_for_status().json()
        return {one["node_name"]: one for one in listed["data"]["result"]["result"]}


@contextmanager
def ray_cluster(folder: Path) -> Iterator[RayCluster]:
    """Where everything has become what it should."""
    if not PYTHON.exists():
        unavailable("Ray is not installed: ./run test does that")
    port = free_port()
    cluster = RayCluster(f"http://127.0.0.1:{port}")
    with TemporaryDirectory(prefix="ray") as sockets, programs(folder) as running:
        nodes = (KILLED, ASKED_TO_END)
        # Ray writes the address of the cluster to a folder that it expects to be there already.
        (Path(sockets) / "ray").mkdir()
        environment = {**ENVIRONMENT, "RAY_TMPDIR": sockets}
        running.start(PYTHON, PROGRAM, str(port), sockets, *nodes, env=environment)
        running.until(lambda: cluster.asked("/api/jobs/").is_success, "Ray's dashboard")
        for name, (_, code) in ENDINGS.items():
            job = partial(_submitted, cluster, name, code.replace("{folder}", sockets))
            running.until(job, f"{name}, which waits for the head's agent")
        running.until(lambda: _status(cluster, "is-stopped") == "RUNNING", "a job to stop")
        cluster.asked("/api/jobs/is-stopped/stop", "POST").raise_for_status()
        running.until(lambda: _is_settled(cluster), "the end of jobs and nodes")
        yield cluster


def _submitted(cluster: RayCluster, name: str, code: str) -> bool:
    """False where the dashboard has no agent yet to give the job to."""
    body = {
        "entrypoint": f"{PYTHON} -c '{code}'",
        "submission_id": name,
        "metadata": {"job_name": f"llm-{name}"},
        **WANTS.get(name, {}),
    }
    answer = cluster.asked("/api/jobs/", "POST", json=body)
    if "No available agent" in answer.text:
        return False
    assert answer.is_success, answer.text
    return True


def _status(cluster: RayCluster, name: str) -> str:
    return str(cluster.jobs()[name]["status"])


def _is_settled(cluster: RayCluster) -> bool:
    nodes = {name: one["state"] for name, one in cluster.nodes().items()}
    if nodes != {"head": "ALIVE", KILLED: "DEAD", ASKED_TO_END: "DEAD"}:
        return False
    return all(_status(cluster, name) == status for name, (status, _) in ENDINGS.items())
