"""Buildkite: builds of two pipelines of an organization, as buildkite.com/docs/apis/rest-api/builds
shows them."""

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

BUILDS = "/v2/organizations/acme/builds"


def settings(url: str) -> dict[str, Any]:
    """One organization."""
    return {"buildkite": {"url": url, "token": "bkua_0a1b2c3d", "organization": "acme"}}


def build(
    number: int, slug: str, state: str, at: datetime, commit: str, **more: Any
) -> dict[str, Any]:
    """A build that ended at that time."""
    began = at - timedelta(minutes=2)
    pipeline = {
        "id": "0f1e",
        "slug": slug,
        "name": slug,
        "default_branch": "trunk",
        "provider": {"id": "github"},
    }
    made = {
        "id": f"b-{number}",
        "url": f"https://api.buildkite.com/v2/organizations/acme/pipelines/{slug}/builds/{number}",
        "web_url": f"https://buildkite.com/acme/{slug}/builds/{number}",
        "number": number,
        "state": state,
        "blocked": False,
        "message": MESSAGE,
        "commit": commit,
        "branch": "trunk",
        "tag": None,
        "source": "webhook",
        "creator": {"id": "3d3c", "name": "Dana Ng", "email": "dana@example.com"},
        "created_at": stamp(began),
        "started_at": stamp(began),
        "finished_at": stamp(at),
        "pipeline": pipeline,
    }
    return made | more


def builds() -> list[dict[str, Any]]:
    """The newest first."""
    return [
        build(103, "checkout", "failed", FAILED, BROKEN),
        build(42, "checkout-deploy", "passed", DEPLOYED, COMMIT),
        build(102, "checkout", "passed", DEPLOYED, BROKEN, branch="feature"),
        build(101, "checkout", "passed", BUILT, COMMIT),
        build(100, "checkout", "canceled", BUILT, COMMIT),
        build(9, "checkout-deploy", "passed", LONG_AGO, BROKEN),
    ]


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on(BUILDS, answer)


def answer(asked: Asked) -> Reply:
    """Two builds a page."""
    start, end = asked.query["created_from"][0], asked.query["created_to"][0]
    found = [one for one in builds() if start <= one["created_at"] <= end]
    page = int(asked.query.get("page", ["1"])[0])
    more = len(found) > 2 * page
    link = f"<https://api.buildkite.com{BUILDS}?created_from={start}&created_to={end}"
    link += f'&exclude_jobs=true&page={page + 1}&per_page=100>; rel="next"'
    return Reply(found[2 * page - 2 : 2 * page], headers={"Link": link} if more else {})
