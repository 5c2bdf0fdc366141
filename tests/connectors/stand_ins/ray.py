"""Ray's dashboard: job llm-1 failed at ONSET, when one node died; an idle one was taken away."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import LocalServer, Reply

READING_POSTS: frozenset[str] = frozenset()
NAME = "llm-1"
DIED = "Unexpected termination: health check failed due to missing too many heartbeats"
REASON = "RuntimeError: CUDA out of memory"
MESSAGE = (
    "Job entrypoint command failed with exit code 3, last available logs (truncated to 20,000 "
    f'chars):\nTraceback (most recent call last):\n  File "train.py", line 1\n{REASON}\n'
)
VERSION = {
    "version": "4",
    "ray_version": "2.60.0",
    "ray_commit": "0" * 40,
    "session_name": "session_2026-03-02_09-00-00_000000_1",
}
REFUSED = {"result": False, "msg": "Failed to query GCS", "data": {"result": None}}
"""How the state API words an error; the status says it too."""
MESSAGES = {"STOPPED": "Job was intentionally stopped.", "FAILED": MESSAGE}
Object = dict[str, Any]


def settings(url: str) -> dict[str, Any]:
    """With a token."""
    return {"ray": {"url": url, "token": "r" * 40}}


def serve(server: LocalServer, jobs: Sequence[Object] | None = None) -> None:
    """The calls that are read."""
    known = [failed(), job("RUNNING", submission_id="other")] if jobs is None else list(jobs)
    server.on("/api/jobs/", Reply(known))
    server.on("/api/version", Reply(VERSION))
    server.on("/api/v0/nodes", Reply(listed(nodes())))


def job(status: str, **given: Any) -> Object:
    """A submission that has run for three hours. Times as datetimes."""
    start: datetime = given.pop("start", ALERT_AT - timedelta(hours=3))
    end: datetime | None = given.pop("end", None)
    own: Object = {
        "type": "SUBMISSION",
        "job_id": None,
        "submission_id": "raysubmit_1",
        "driver_info": None,
        "status": status,
        "entrypoint": "python train.py",
        "message": MESSAGES.get(status, ""),
        "error_type": "JOB_ENTRYPOINT_COMMAND_ERROR" if status == "FAILED" else None,
        "start_time": _ms(start),
        "end_time": _ms(end) if end else None,
        "metadata": {},
        "runtime_env": {},
        "driver_agent_http_address": "http://10.0.0.7:52365",
        "driver_node_id": "7" * 56,
        "driver_exit_code": None,
    }
    return {**own, **given}


def failed() -> Object:
    """The job's newest submission."""
    named = {"job_name": NAME}
    return job("FAILED", end=ONSET, metadata=named, driver_exit_code=3)


def node(name: str, state: str = "ALIVE", message: str = "", at: datetime | None = None) -> Object:
    return {
        "node_id": name.ljust(56, "0"),
        "node_ip": "10.0.0.7",
        "is_head_node": False,
        "state": state,
        "state_message": message or None,
        "node_name": name,
        "resources_total": {},
        "labels": {},
        "start_time_ms": _ms(ALERT_AT - timedelta(days=1)),
        "end_time_ms": _ms(at) if at else 0,
    }


def nodes() -> list[Object]:
    """One that died, and ones that are well, were taken away or died long before."""
    return [
        node("gpu-05"),
        node("gpu-07", "DEAD", DIED, ONSET),
        node("gpu-08", "DEAD", "Expected termination: idle", ONSET),
        node("gpu-09", "DEAD", DIED, ALERT_AT - timedelta(hours=20)),
    ]


def listed(found: Sequence[Object], total: int | None = None) -> Object:
    """As the state API wraps a list."""
    count = len(found) if total is None else total
    content = {
        "total": count,
        "num_after_truncation": count,
        "num_filtered": count,
        "result": list(found),
        "partial_failure_warning": "",
        "warnings": None,
    }
    return {"result": True, "msg": "", "data": {"result": content}}


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)
