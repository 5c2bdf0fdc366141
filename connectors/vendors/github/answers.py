"""The parts of GitHub's REST API answers that are read (docs.github.com/rest, 2022-11-28). All text
is hostile."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from faultline.connectors.shared.changes.code_changes import CodeChange, CodeCommit, FileChange, utc
from faultline.connectors.shared.vendor_text import short

LONGEST_PATH = 1000


class GitHubUser(msgspec.Struct):
    """Who did it; GitHub answers `{}` for a commit of nobody it knows."""

    login: str | None = None


class RepositoryAnswer(msgspec.Struct):
    """GET /repos/{owner}/{repo}. `permissions` are those of the token's user."""

    default_branch: str
    permissions: dict[str, bool] | None = None


class GitHubDeployment(msgspec.Struct):
    """GET /repos/{owner}/{repo}/deployments."""

    id: int
    sha: str
    created_at: datetime
    ref: str = ""
    environment: str = ""
    description: str | None = None
    creator: GitHubUser | None = None
    production_environment: bool | None = None
    transient_environment: bool | None = None


class DeploymentStatus(msgspec.Struct):
    """GET /repos/{owner}/{repo}/deployments/{id}/statuses, the newest first."""

    state: str
    created_at: datetime


class GitHubRelease(msgspec.Struct):
    """GET /repos/{owner}/{repo}/releases."""

    tag_name: str
    published_at: datetime | None = None
    name: str | None = None
    author: GitHubUser | None = None
    draft: bool = False
    prerelease: bool = False


class WorkflowRun(msgspec.Struct):
    """One of GET /repos/{owner}/{repo}/actions/runs."""

    id: int
    head_sha: str
    created_at: datetime
    updated_at: datetime
    name: str | None = None
    path: str = ""
    status: str | None = None
    conclusion: str | None = None
    actor: GitHubUser | None = None


class WorkflowRuns(msgspec.Struct):
    """GET /repos/{owner}/{repo}/actions/runs."""

    total_count: int
    workflow_runs: list[WorkflowRun]


class PullRequest(msgspec.Struct):
    """GET /repos/{owner}/{repo}/pulls and /commits/{sha}/pulls."""

    number: int
    title: str
    updated_at: datetime
    merged_at: datetime | None = None
    merge_commit_sha: str | None = None
    user: GitHubUser | None = None


class _Signed(msgspec.Struct):
    date: datetime | None = None


class _GitCommit(msgspec.Struct):
    message: str
    committer: _Signed | None = None


class _Parent(msgspec.Struct):
    sha: str


class GitHubChangedFile(msgspec.Struct):
    """A file of a pull request, a commit or a comparison; `patch` is absent of binary and of large
    files."""

    filename: str
    patch: str | None = None
    previous_filename: str | None = None


class GitHubCommit(msgspec.Struct):
    """One commit of a comparison, or GET /repos/{owner}/{repo}/commits/{ref}."""

    sha: str
    commit: _GitCommit
    author: GitHubUser | None = None
    parents: list[_Parent] = []
    files: list[GitHubChangedFile] | None = None


class GitHubComparison(msgspec.Struct):
    """GET /repos/{owner}/{repo}/compare/{base}...{head}."""

    status: str
    behind_by: int
    total_commits: int
    commits: list[GitHubCommit]
    files: list[GitHubChangedFile] | None = None


class GitHubContent(msgspec.Struct):
    """GET /repos/{owner}/{repo}/contents/{path} of a file; `content` is empty above 1 MB."""

    type: str
    content: str = ""
    encoding: str = ""


class Entry(msgspec.Struct):
    """GET /repos/{owner}/{repo}/contents/{path} of a folder."""

    type: str


CONTENT: Any = GitHubContent | list[Entry]
"""GET /repos/{owner}/{repo}/contents/{path}, whatever lies there."""


def login(user: GitHubUser | None) -> str | None:
    """The user's name at GitHub."""
    return user.login if user else None


def file_changes(files: list[GitHubChangedFile]) -> tuple[FileChange, ...]:
    """The files of a change."""
    return tuple(
        FileChange(
            f.filename[:LONGEST_PATH], f.patch, (f.previous_filename or "")[:LONGEST_PATH] or None
        )
        for f in files
    )


def commit_of(answer: GitHubCommit, link: str) -> CodeCommit | None:
    """A commit; None without a time."""
    # The author's date survives a rebase; the committer's is when the commit was applied.
    at = answer.commit.committer.date if answer.commit.committer else None
    if at is None:
        return None
    # By Git's convention, the first line of a message is its title.
    title = short((answer.commit.message.splitlines() or [""])[0], 200)
    return CodeCommit(
        answer.sha, title, utc(at), login(answer.author), link, tuple(p.sha for p in answer.parents)
    )


def change_of_pull(pull: PullRequest, link: str, commit: str | None = None) -> CodeChange | None:
    """A merged pull request, known by the commit it became; None where it is not merged."""
    sha = commit or pull.merge_commit_sha
    if pull.merged_at is None or not sha:
        return None
    # A comparison may list the change under either commit.
    shas = frozenset(s for s in (pull.merge_commit_sha, commit) if s)
    title = f"{short(pull.title, 180)} (#{pull.number})"
    return CodeChange(sha, title, utc(pull.merged_at), login(pull.user), link, pull.number, shas)
