"""Azure DevOps: builds of a project, and a release that was deployed to two stages."""

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
    MESSAGE,
    stamp,
)

BUILDS = "/acme/Shop%20Front/_apis/build/builds"
DEPLOYMENTS = "/acme/Shop%20Front/_apis/release/deployments"
TOKEN = "1_2_3"


def settings(url: str) -> dict[str, Any]:
    """One project."""
    own = {"url": url, "releases_url": url, "token": "pat0a1b2c3d", "organization": "acme"}
    return {"azuredevops": own | {"projects": ["Shop Front"]}}


def person() -> dict[str, Any]:
    """An identity."""
    return {"displayName": "Dana Ng", "id": "7f", "uniqueName": "dana@example.com"}


def build(
    number: int, at: datetime, result: str, commit: str, branch: str = "refs/heads/main"
) -> dict[str, Any]:
    """A build as the specification has it."""
    return {
        "id": number,
        "buildNumber": f"20260302.{number}",
        "status": "completed",
        "result": result,
        "queueTime": stamp(at - timedelta(minutes=3)),
        "startTime": stamp(at - timedelta(minutes=2)),
        "finishTime": stamp(at),
        "definition": {"id": 5, "name": "checkout", "path": "\\", "type": "build"},
        "project": {"id": "p-1", "name": "Shop Front", "state": "wellFormed"},
        "sourceBranch": branch,
        "sourceVersion": commit,
        "reason": "individualCI",
        "requestedFor": person(),
        "repository": {"id": "r-1", "name": "checkout", "type": "TfsGit"},
        "triggerInfo": {"ci.message": MESSAGE},
    }


def deployment(number: int, at: datetime, stage: str, status: str) -> dict[str, Any]:
    """A deployment as the specification has it."""
    return {
        "id": number,
        "attempt": 1,
        "deploymentStatus": status,
        "operationStatus": "approved",
        "queuedOn": stamp(at - timedelta(minutes=3)),
        "startedOn": stamp(at - timedelta(minutes=2)),
        "completedOn": stamp(at),
        "reason": "manual",
        "release": {"id": 77, "name": "Release-77"},
        "releaseDefinition": {"id": 3, "name": "checkout"},
        "releaseEnvironment": {"id": 9, "name": stage},
        "requestedFor": person(),
    }


def builds() -> list[dict[str, Any]]:
    """The newest first."""
    return [
        build(103, FAILED, "failed", BROKEN),
        build(102, BUILT, "succeeded", BROKEN, "refs/pull/4/merge"),
        build(101, BUILT, "succeeded", COMMIT),
    ]


def deployments() -> list[dict[str, Any]]:
    """The newest first."""
    return [
        deployment(502, DEPLOYED, "Production", "succeeded"),
        deployment(501, DEPLOYED - timedelta(minutes=9), "Staging", "succeeded"),
    ]


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on(BUILDS, answer)
    server.on(DEPLOYMENTS, Reply({"count": 2, "value": deployments()}))


def answer(asked: Asked) -> Reply:
    """Two builds a page."""
    if asked.query.get("continuationToken") == [TOKEN]:
        return Reply({"count": 1, "value": builds()[2:]})
    return Reply({"count": 2, "value": builds()[:2]}, headers={"x-ms-continuationtoken": TOKEN})
