"""Bitbucket: pipelines and deployments of a repository, as developer.atlassian.com shows them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins.ci_runs import (
    BROKEN,
    BUILT,
    COMMIT,
    DEPLOYED,
    FAILED,
    LONG_AGO,
    stamp,
)

ROOT = "/2.0/repositories/acme/checkout"


def settings(url: str) -> dict[str, Any]:
    """One repository."""
    return {"bitbucket": {"url": url, "token": "ATCTT_0a1b2c3d", "repositories": ["acme/checkout"]}}


def pipeline(number: int, at: datetime, result: str, commit: str, branch: str) -> dict[str, Any]:
    """A run that ended at that time."""
    return {
        "type": "pipeline",
        "uuid": f"{{p-{number}}}",
        "build_number": number,
        "creator": {"type": "user", "display_name": "Dana Ng", "uuid": "{u-1}"},
        "target": {
            "type": "pipeline_ref_target",
            "ref_type": "branch",
            "ref_name": branch,
            "commit": {"type": "commit", "hash": commit},
            "selector": {"type": "branches", "pattern": branch},
        },
        "state": {
            "type": "pipeline_state_completed",
            "name": "COMPLETED",
            "result": {"type": "pipeline_state_completed_result", "name": result},
        },
        "created_on": stamp(at - timedelta(minutes=2)),
        "completed_on": stamp(at),
    }


def deployment(number: int, at: datetime, environment: str) -> dict[str, Any]:
    """A deployment that ended at that time."""
    state = {
        "type": "deployment_state_completed",
        "name": "COMPLETED",
        "status": {"type": "deployment_state_completed_status_successful", "name": "SUCCESSFUL"},
        "started_on": stamp(at - timedelta(minutes=1)),
        "completed_on": stamp(at),
    }
    release = {"type": "deployment_release", "name": f"#{number}", "commit": {"hash": COMMIT}}
    return {
        "type": "deployment",
        "uuid": f"{{d-{number}}}",
        "state": state,
        "environment": {"type": "deployment_environment", "uuid": environment},
        "release": release,
    }


RUNS = [
    pipeline(103, FAILED, "FAILED", BROKEN, "main"),
    pipeline(102, BUILT, "SUCCESSFUL", BROKEN, "feature"),
    pipeline(101, BUILT, "SUCCESSFUL", COMMIT, "main"),
    pipeline(9, LONG_AGO, "SUCCESSFUL", BROKEN, "main"),
]


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on(f"{ROOT}/pipelines", answer)
    deployments = [
        deployment(101, DEPLOYED, "{e-prod}"),
        deployment(100, DEPLOYED - timedelta(minutes=9), "{e-staging}"),
    ]
    server.on(f"{ROOT}/deployments", Reply({"values": deployments, "pagelen": 50}))
    environments = [
        {"type": "deployment_environment", "uuid": "{e-prod}", "name": "Production"},
        {"type": "deployment_environment", "uuid": "{e-staging}", "name": "Staging"},
    ]
    server.on(f"{ROOT}/environments", Reply({"values": environments}))


def answer(asked: Asked) -> Reply:
    """Two runs a page."""
    page = int(asked.query.get("page", ["1"])[0])
    body: dict[str, Any] = {"values": RUNS[2 * page - 2 : 2 * page], "page": page, "pagelen": 50}
    if 2 * page < len(RUNS):
        query = f"sort=-created_on&pagelen=50&page={page + 1}"
        body["next"] = f"https://api.bitbucket.org{ROOT}/pipelines?{query}"
    return Reply(body)
