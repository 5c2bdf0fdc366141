"""GitLab: the same story as GitHub's stand-in tells, of the project shop/web/checkout."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from typing import Any

from tests.connectors.conftest import ALERT_AT
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins.github import (
    BRANCH,
    DEPLOYED,
    LATER,
    OLD,
    POOL,
    POOL_FILE,
    POOL_PATCH,
    POOL_TEXT,
    README,
    SETTING,
)

READING_POSTS: frozenset[str] = frozenset()
PROJECT = "shop/web/checkout"
API = f"/api/v4/projects/{PROJECT.replace('/', '%2F')}"


def settings(url: str) -> dict[str, Any]:
    """One service with one project."""
    services = {name: {"gitlab_project": [PROJECT]} for name in ("checkout", "cart")}
    return {"gitlab": {"token": "t", "url": url}, "services": services}


def serve(server: LocalServer) -> None:
    """The project with its deployments, merges, pipelines and one file."""
    old = ALERT_AT - timedelta(days=2)
    server.on(
        "/api/v4/personal_access_tokens/self",
        Reply({"id": 1, "scopes": ["read_api"], "active": True}),
    )
    permissions = {"project_access": {"access_level": 20}, "group_access": None}
    project = {
        "id": 5,
        "path_with_namespace": PROJECT,
        "default_branch": "main",
        "permissions": permissions,
    }
    server.on(API, Reply(project))
    deployments = [
        deployment(13, SETTING, "production", DEPLOYED),
        deployment(12, SETTING, "staging", DEPLOYED - timedelta(minutes=20)),
        deployment(11, OLD, "production", old),
    ]
    server.on(f"{API}/deployments", Reply(deployments))
    released = [
        {
            "tag_name": "v41",
            "name": "v41",
            "released_at": stamp(old),
            "author": {"username": "dana"},
        }
    ]
    server.on(f"{API}/releases", Reply(released))
    pipelines = [
        pipeline(72, None, SETTING, DEPLOYED, "success"),
        pipeline(71, "Tests", README, ALERT_AT - timedelta(minutes=50), "failed"),
    ]
    server.on(f"{API}/pipelines", Reply(pipelines))
    server.on(f"{API}/merge_requests", _merges)
    server.on(f"{API}/repository/compare", Reply(_compared()))
    server.on(f"{API}/repository/commits", Reply([]))
    server.on(f"{API}/repository/commits/{SETTING}/merge_requests", Reply([]))
    logging = diff("config/logging.yaml", "@@ -1 +1 @@\n-level: info\n+level: warning\n")
    server.on(f"{API}/repository/commits/{SETTING}/diff", Reply([logging]))
    server.on(
        f"{API}/merge_requests/41/diffs",
        Reply([diff("README.md", "@@ -1 +1 @@\n-Chekout\n+Checkout\n")]),
    )
    server.on(
        f"{API}/merge_requests/42/diffs", Reply([diff(POOL_FILE, POOL_PATCH), diff("logo.png", "")])
    )
    content = {
        "encoding": "base64",
        "content": base64.b64encode(POOL_TEXT.encode()).decode(),
        "size": len(POOL_TEXT),
    }
    server.on(f"{API}/repository/files/{POOL_FILE.replace('/', '%2F')}", Reply(content))


def stamp(at: datetime) -> str:
    """A time as GitLab writes it."""
    return at.isoformat(timespec="milliseconds")


def deployment(
    number: int, sha: str, environment: str, at: datetime, status: str = "success"
) -> dict[str, Any]:
    """A deployment whose job ended at that time."""
    job = {
        "id": 900 + number,
        "started_at": stamp(at - timedelta(minutes=1)),
        "finished_at": stamp(at),
    }
    return {
        "id": number, "iid": number, "ref": "main", "sha": sha, "status": status, "deployable": job,
        "created_at": stamp(at - timedelta(minutes=2)), "updated_at": stamp(ALERT_AT),
        "user": {"username": "deploy-bot"}, "environment": {"id": 9, "name": environment,
        "external_url": None},
    }  # fmt: skip


def pipeline(number: int, name: str | None, sha: str, at: datetime, status: str) -> dict[str, Any]:
    """A pipeline of the default branch."""
    return {
        "id": number, "sha": sha, "ref": "main", "status": status, "name": name,
        "created_at": stamp(at),
        "updated_at": stamp(at),
    }  # fmt: skip


def merge(
    number: int, title: str, at: datetime, *, merge_sha: str | None, squash_sha: str | None
) -> dict[str, Any]:
    """A merged merge request."""
    return {
        "iid": number, "title": title, "state": "merged", "updated_at": stamp(at),
        "merged_at": stamp(at),
        "merge_commit_sha": merge_sha, "squash_commit_sha": squash_sha, "sha": f"{number:040x}",
        "author": {"username": "dana"},
    }  # fmt: skip


def commit(sha: str, title: str, at: datetime, *parents: str) -> dict[str, Any]:
    """A commit."""
    return {
        "id": sha, "title": title, "created_at": stamp(at), "committed_date": stamp(at),
        "author_name": "Dana D.",
        "parent_ids": list(parents),
    }  # fmt: skip


def diff(path: str, text: str) -> dict[str, Any]:
    """A file of a change."""
    return {"old_path": path, "new_path": path, "diff": text, "new_file": False, "too_large": False}


def _compared() -> dict[str, Any]:
    at = ALERT_AT - timedelta(hours=2)
    commits = [
        commit(README, "Reword the readme", at, OLD),
        commit(BRANCH, "try fewer connections", at, OLD),
        commit(POOL, "Merge branch 'pool' into 'main'", at, README, BRANCH),
        commit(SETTING, "Raise the log level", at, POOL),
    ]
    diffs = [diff(path, "") for path in ("README.md", POOL_FILE, "config/logging.yaml")]
    return {"commits": commits, "diffs": diffs, "compare_timeout": False, "compare_same_ref": False}


def _merges(asked: Asked) -> Reply:
    """Two pages; the second is the one that the first one's link names."""
    if asked.query.get("page") == ["2"]:
        at = ALERT_AT - timedelta(minutes=90)
        return Reply([merge(41, "Reword the readme", at, merge_sha=None, squash_sha=README)])
    pool = ALERT_AT - timedelta(minutes=40)
    merges = [
        merge(43, "Tidy up", ALERT_AT - timedelta(minutes=5), merge_sha=LATER, squash_sha=None),
        merge(42, "Lower the number of pooled connections", pool, merge_sha=POOL, squash_sha=None),
    ]
    following = (
        "<https://gitlab.example.com/api/v4/projects/5/merge_requests?state=merged&page=2>; "
        'rel="next"'
    )
    return Reply(merges, headers={"Link": following})
