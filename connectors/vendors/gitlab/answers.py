"""The parts of GitLab's REST API answers that are read (docs.gitlab.com/api/rest, v4). All text is
hostile."""

from __future__ import annotations

from datetime import datetime

import msgspec

from faultline.connectors.shared.changes.code_changes import CodeChange, CodeCommit, FileChange, utc
from faultline.connectors.shared.vendor_text import short

LONGEST_PATH = 1000


class GitLabUser(msgspec.Struct):
    """Who did it."""

    username: str | None = None


class _Access(msgspec.Struct):
    access_level: int = 0


class _Permissions(msgspec.Struct):
    project_access: _Access | None = None
    group_access: _Access | None = None


class ProjectAnswer(msgspec.Struct):
    """GET /projects/:id. `permissions` are those of the token's user, absent where it is
    nobody's."""

    path_with_namespace: str
    default_branch: str | None = None
    permissions: _Permissions | None = None


class TokenAnswer(msgspec.Struct):
    """GET /personal_access_tokens/self, for personal, project and group access tokens."""

    scopes: list[str]


class _Environment(msgspec.Struct):
    name: str = ""


class _Job(msgspec.Struct):
    id: int | None = None
    finished_at: datetime | None = None
    started_at: datetime | None = None


class GitLabDeployment(msgspec.Struct):
    """GET /projects/:id/deployments."""

    id: int
    sha: str
    status: str
    created_at: datetime
    updated_at: datetime | None = None
    finished_at: datetime | None = None
    ref: str = ""
    user: GitLabUser | None = None
    environment: _Environment | None = None
    deployable: _Job | None = None


class GitLabRelease(msgspec.Struct):
    """GET /projects/:id/releases."""

    tag_name: str
    released_at: datetime | None = None
    name: str | None = None
    author: GitLabUser | None = None
    upcoming_release: bool = False


class Pipeline(msgspec.Struct):
    """GET /projects/:id/pipelines."""

    id: int
    sha: str
    status: str
    created_at: datetime
    updated_at: datetime
    ref: str = ""
    name: str | None = None


class MergeRequest(msgspec.Struct):
    """GET /projects/:id/merge_requests and /repository/commits/:sha/merge_requests."""

    iid: int
    title: str
    updated_at: datetime
    merged_at: datetime | None = None
    merge_commit_sha: str | None = None
    squash_commit_sha: str | None = None
    sha: str | None = None
    author: GitLabUser | None = None


class GitLabCommit(msgspec.Struct):
    """One commit of a comparison. GitLab tells an author's name, not who that is at GitLab."""

    id: str
    title: str
    created_at: datetime
    committed_date: datetime | None = None
    author_name: str | None = None
    parent_ids: list[str] = []


class GitLabChangedFile(msgspec.Struct):
    """A file of a merge request, a commit or a comparison; `diff` is empty where it is too large or
    collapsed."""

    new_path: str
    old_path: str = ""
    diff: str | None = None


class GitLabComparison(msgspec.Struct):
    """GET /projects/:id/repository/compare."""

    commits: list[GitLabCommit]
    diffs: list[GitLabChangedFile]
    compare_timeout: bool = False


class GitLabContent(msgspec.Struct):
    """GET /projects/:id/repository/files/:path."""

    content: str
    encoding: str
    size: int = 0


def username(user: GitLabUser | None) -> str | None:
    """The user's name at GitLab."""
    return user.username if user else None


def file_changes(files: list[GitLabChangedFile]) -> tuple[FileChange, ...]:
    """The files of a change; some versions give a diff its `---` and `+++` lines, which are written
    again."""
    return tuple(
        FileChange(
            f.new_path[:LONGEST_PATH],
            _hunks(f.diff or "") or None,
            # GitLab repeats the path of a file that was not renamed.
            f.old_path[:LONGEST_PATH] if f.old_path and f.old_path != f.new_path else None,
        )
        for f in files
    )


def commit_of(answer: GitLabCommit, link: str) -> CodeCommit:
    """A commit."""
    at = utc(answer.committed_date or answer.created_at)
    author = short(answer.author_name, 100) if answer.author_name else None
    return CodeCommit(
        answer.id, short(answer.title, 200), at, author, link, tuple(answer.parent_ids)
    )


def change_of_merge(merge: MergeRequest, link: str, commit: str | None = None) -> CodeChange | None:
    """A merged merge request, known by the commit it became, for a fast-forward its last
    one."""
    # How a request was merged decides which of these the branch holds.
    shas = [s for s in (merge.merge_commit_sha, merge.squash_commit_sha, commit, merge.sha) if s]
    if merge.merged_at is None or not shas:
        return None
    title = f"{short(merge.title, 180)} (!{merge.iid})"
    number = merge.iid
    return CodeChange(
        commit or shas[0],
        title,
        utc(merge.merged_at),
        username(merge.author),
        link,
        number,
        frozenset(shas),
    )


def _hunks(diff: str) -> str:
    """The diff from its first hunk on."""
    if diff.startswith(("--- ", "diff ")):
        # Without a hunk only the header is left, as for a file that was just renamed.
        place = diff.find("\n@@")
        return diff[place + 1 :] if place >= 0 else ""
    return diff
