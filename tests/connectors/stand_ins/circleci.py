"""CircleCI: pipelines of a project with their workflows, as circleci.com/docs/api/v2 shows them."""

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
    MESSAGE,
    stamp,
)

PIPELINES = "/api/v2/project/gh/acme/checkout/pipeline"


def settings(url: str) -> dict[str, Any]:
    """One project."""
    own = {"url": url, "token": "CCIPAT_0a1b2c3d", "projects": ["gh/acme/checkout"]}
    return {"circleci": own}


def pipeline(number: int, at: datetime, commit: str, branch: str) -> dict[str, Any]:
    """A pipeline that began at that time."""
    return {
        "id": f"p-{number}",
        "errors": [],
        "project_slug": "gh/acme/checkout",
        "updated_at": stamp(at),
        "number": number,
        "state": "created",
        "created_at": stamp(at),
        "trigger": {
            "type": "webhook",
            "received_at": stamp(at),
            "actor": {"login": "dana", "avatar_url": None},
        },
        "vcs": {
            "provider_name": "GitHub",
            "revision": commit,
            "branch": branch,
            "commit": {"subject": MESSAGE.partition("\n")[0], "body": ""},
        },
    }


def workflow(number: int, name: str, status: str, began: datetime, at: datetime) -> dict[str, Any]:
    """A workflow of that pipeline."""
    return {
        "pipeline_id": f"p-{number}",
        "id": f"w-{number}-{name}",
        "name": name,
        "project_slug": "gh/acme/checkout",
        "status": status,
        "started_by": "u-1",
        "pipeline_number": number,
        "created_at": stamp(began),
        "stopped_at": stamp(at),
    }


LISTED = [
    pipeline(104, FAILED - timedelta(minutes=2), BROKEN, "main"),
    pipeline(103, BUILT, BROKEN, "feature"),
    pipeline(102, BUILT - timedelta(minutes=2), COMMIT, "main"),
    pipeline(9, LONG_AGO, BROKEN, "main"),
]


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on(PIPELINES, answer)
    begun = BUILT - timedelta(minutes=2)
    workflows = {
        104: [workflow(104, "build", "failed", FAILED - timedelta(minutes=2), FAILED)],
        102: [
            workflow(102, "build", "success", begun, BUILT),
            workflow(102, "deploy", "success", BUILT, DEPLOYED),
        ],
    }
    for number, own in workflows.items():
        body = {"items": own, "next_page_token": None}
        server.on(f"/api/v2/pipeline/p-{number}/workflow", Reply(body))


def answer(asked: Asked) -> Reply:
    """Two pipelines a page, the newest first."""
    token = asked.query.get("page-token", ["0"])[0]
    begin = int(token)
    more = str(begin + 2) if begin + 2 < len(LISTED) else None
    return Reply({"items": LISTED[begin : begin + 2], "next_page_token": more})
