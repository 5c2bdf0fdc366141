"""Objects in the shapes of GitHub's REST API, with every field its specification requires."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

API = "https://api.github.com"
WEB = "https://github.com"
NAME = "shop/checkout"

_URLS = (
    *(
        "archive",
        "assignees",
        "blobs",
        "branches",
        "collaborators",
        "comments",
        "commits",
        "compare",
        "contents",
    ),
    *(
        "contributors",
        "deployments",
        "downloads",
        "events",
        "forks",
        "git_commits",
        "git_refs",
        "git_tags",
        "hooks",
    ),
    *(
        "issue_comment",
        "issue_events",
        "issues",
        "keys",
        "labels",
        "languages",
        "merges",
        "milestones",
    ),
    *(
        "notifications",
        "pulls",
        "releases",
        "stargazers",
        "statuses",
        "subscribers",
        "subscription",
        "tags",
        "teams",
    ),
    "trees",
)


def stamp(at: datetime) -> str:
    """A time as GitHub writes it."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def urls(*names: str) -> dict[str, str]:
    """Links that nobody follows."""
    return {name: f"{API}/{name}" for name in names}


def user(login: str) -> dict[str, Any]:
    """A simple user."""
    lists = (
        "events followers following gists organizations received_events "
        "repos starred subscriptions avatar html"
    )
    return {
        "login": login, "id": 7, "node_id": "U7", "gravatar_id": "", "type": "User",
        "site_admin": False,
        **urls("url", *(f"{name}_url" for name in lists.split())),
    }  # fmt: skip


def repository(*, push: bool = False) -> dict[str, Any]:
    """A full repository."""
    at = "2025-01-01T00:00:00Z"
    flags = dict.fromkeys(("private", "fork", "archived", "disabled"), False)
    has = dict.fromkeys(
        ("has_issues", "has_projects", "has_wiki", "has_pages", "has_downloads", "has_discussions"),
        True,
    )
    counts = (
        "forks forks_count open_issues open_issues_count size "
        "stargazers_count watchers watchers_count"
    )
    return {
        **urls("url", *(f"{name}_url" for name in _URLS)), **flags, **has,
        **dict.fromkeys(f"{counts} network_count subscribers_count".split(), 0),
        "id": 1, "node_id": "R1", "name": "checkout", "full_name": NAME, "owner": user("shop"),
        "description": None,
        "html_url": f"{WEB}/{NAME}", "clone_url": f"{WEB}/{NAME}.git",
        "git_url": ("git://github.com/" f"{NAME}.git"),
        "ssh_url": f"git@github.com:{NAME}.git", "svn_url": f"{WEB}/{NAME}", "homepage": None,
        "language": "Python",
        "mirror_url": None, "license": None, "default_branch": "main", "pushed_at": at,
        "created_at": at,
        "updated_at": at, "permissions": {"admin": False, "push": push, "pull": True},
    }  # fmt: skip


def deployment(
    number: int, sha: str, environment: str, at: datetime, login: str = "deploy-bot"
) -> dict[str, Any]:
    """A deployment."""
    return {
        "id": number, "node_id": f"D{number}", "sha": sha, "ref": "main", "task": "deploy",
        "environment": environment,
        "payload": {}, "description": None, "creator": user(login), "created_at": stamp(at),
        "updated_at": stamp(at),
        "production_environment": environment == "production", "transient_environment": False,
        **urls("url", "statuses_url", "repository_url"),
    }  # fmt: skip


def status(state: str, at: datetime) -> dict[str, Any]:
    """A deployment's status."""
    return {
        "id": 1, "node_id": "S1", "state": state, "creator": user("deploy-bot"), "description": "",
        "created_at": stamp(at), "updated_at": stamp(at),
        **urls("url", "deployment_url", "target_url", "repository_url"),
    }  # fmt: skip


def release(tag: str, at: datetime) -> dict[str, Any]:
    """A published release."""
    links = ("url", "html_url", "assets_url", "upload_url", "tarball_url", "zipball_url")
    return {
        "id": 1, "node_id": "L1", "tag_name": tag, "target_commitish": "main", "name": tag,
        "draft": False,
        "prerelease": False, "created_at": stamp(at), "published_at": stamp(at),
        "author": user("dana"), "assets": [],
        **urls(*links),
    }  # fmt: skip


def commit(
    sha: str, message: str, at: datetime, parents: tuple[str, ...], login: str = "dana"
) -> dict[str, Any]:
    """A commit as a comparison lists it."""
    signed = {"name": login, "email": f"{login}@example.com", "date": stamp(at)}
    return {
        "sha": sha, "node_id": "C1", "author": user(login), "committer": user(login),
        "commit": {
            "author": signed, "committer": signed, "message": message, "comment_count": 0,
            "tree": {"sha": "0" * 40, **urls("url")}, **urls("url"),
        },
        "parents": [{"sha": parent, **urls("url", "html_url")} for parent in parents],
        **urls("url", "html_url", "comments_url"),
    }  # fmt: skip


def changed(path: str, patch: str | None = None) -> dict[str, Any]:
    """A file of a change."""
    return {
        "filename": path, "sha": "1" * 40, "status": "modified", "additions": 1, "deletions": 1,
        "changes": 2,
        **({"patch": patch} if patch is not None else {}), **urls("blob_url", "raw_url",
        "contents_url"),
    }  # fmt: skip


def comparison(
    commits: list[dict[str, Any]], files: list[dict[str, Any]], behind: int = 0
) -> dict[str, Any]:
    """What lies between two revisions."""
    return {
        **urls("url", "html_url", "permalink_url", "diff_url", "patch_url"),
        "base_commit": commits[0], "merge_base_commit": commits[0],
        "ahead_by": 0 if behind else len(commits) - 1,
        "status": "behind" if behind else "ahead", "behind_by": behind,
        "total_commits": len(commits) - 1, "commits": commits[1:], "files": files,
    }  # fmt: skip


def pull(
    number: int, title: str, sha: str, merged: datetime, login: str = "dana"
) -> dict[str, Any]:
    """A merged pull request."""
    side = {
        "label": "shop:main",
        "ref": "main",
        "sha": "2" * 40,
        "user": user(login),
        "repo": repository(),
    }
    links = "comments commits statuses html issue review_comments review_comment self"
    return {
        **urls("url", "html_url", "diff_url", "patch_url", "issue_url", "commits_url",
        "review_comments_url"),
        **urls("review_comment_url", "comments_url", "statuses_url"),
        "id": number, "node_id": f"P{number}", "number": number, "state": "closed", "locked": False,
        "title": title,
        "user": user(login), "body": None, "labels": [], "milestone": None,
        "created_at": stamp(merged),
        "updated_at": stamp(merged), "closed_at": stamp(merged), "merged_at": stamp(merged),
        "merge_commit_sha": sha,
        "assignee": None, "head": side, "base": side, "author_association": "MEMBER",
        "auto_merge": None,
        "_links": {name: {"href": f"{API}/{name}"} for name in links.split()},
    }  # fmt: skip


def run(number: int, name: str, sha: str, at: datetime, conclusion: str) -> dict[str, Any]:
    """A completed workflow run."""
    links = "jobs logs check_suite artifacts cancel rerun workflow"
    return {
        "id": number, "node_id": f"W{number}", "name": name, "head_branch": "main", "head_sha": sha,
        "path": f".github/workflows/{name.lower()}.yml", "display_title": name,
        "run_number": number, "event": "push",
        "status": "completed", "conclusion": conclusion, "workflow_id": 3, "pull_requests": [],
        "actor": user("dana"),
        "created_at": stamp(at), "updated_at": stamp(at), "head_commit": None,
        "repository": repository(),
        "head_repository": repository(), **urls("url", "html_url",
        *(f"{link}_url" for link in links.split())),
    }  # fmt: skip


def content(path: str, text: str) -> dict[str, Any]:
    """A file."""
    return {
        "type": "file", "name": path.rpartition("/")[2], "path": path, "sha": "3" * 40,
        "size": len(text),
        "encoding": "base64", "content": base64.encodebytes(text.encode()).decode(),
        "_links": {"git": None, "html": None, **urls("self")}, **urls("url", "git_url", "html_url",
        "download_url"),
    }  # fmt: skip
