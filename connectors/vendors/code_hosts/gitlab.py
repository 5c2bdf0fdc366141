"""GitLab: deployments, releases, pipelines, merged merge requests and commits with their diffs, and
code at a revision.

Reading only: GET is all that can be sent. Speaks to gitlab.com and to servers from 15.7 on. Answers
are as docs.gitlab.com/api/rest (v4) has them.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import quote

import msgspec

from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.changes.code_changes import (
    CodeCommit,
    CodeComparison,
    FileChange,
    Rollout,
    utc,
)
from faultline.connectors.shared.changes.code_connector import CodeConnector
from faultline.connectors.shared.changes.code_repository import (
    LONGEST_PATH,
    PER_PAGE,
    CodeHostList,
    HostFile,
    HostMerge,
    HostRun,
    HostUser,
    Params,
    PipelineRun,
    Repository,
    RolloutState,
    name_of,
)
from faultline.connectors.shared.http.linked_pages import (
    LinkedPage,
    LinkedSession,
    query_of,
)
from faultline.connectors.shared.rows.collection_builder import stamp
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.code_hosts import GitLabSettings

VENDOR = "gitlab"
DEVELOPER = 30
"""The access level from which one may push (docs.gitlab.com/api/access_requests)."""
# A part of two dots would lead out of the path.
_NAME = re.compile(
    r"\d{1,18}|(?!.*/\.\.(/|$))[A-Za-z0-9_][\w.-]{0,254}(/[A-Za-z0-9_.][\w.-]{0,254}){1,20}",
    re.ASCII,
)
MOST_COMMITS = 1000
"""Commits of a comparison that are looked at."""
_STATES: dict[str, RolloutState] = {
    "success": "done",
    "failed": "failed",
    "running": "running",
}
"""docs.gitlab.com/api/deployments; the others (`created`, `blocked`, `canceled`, `skipped`) have
not begun."""
_RUNNING = frozenset({"running", "pending", "created", "preparing", "waiting_for_resource"})
LATEST_FIRST = (("order_by", "updated_at"), ("sort", "desc"), ("per_page", str(PER_PAGE)))


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
    user: HostUser | None = None
    environment: _Environment | None = None
    deployable: _Job | None = None


class Pipeline(HostRun, kw_only=True):
    """GET /projects/:id/pipelines, which does not tell who started one."""

    @property
    def state(self) -> RolloutState | None:
        """How it ended."""
        return "running" if self.status in _RUNNING else _STATES.get(self.status or "")


class MergeRequest(HostMerge, kw_only=True):
    """GET /projects/:id/merge_requests and /repository/commits/:sha/merge_requests."""

    number: int = msgspec.field(name="iid")
    squash_commit_sha: str | None = None
    sha: str | None = None

    def shas(self, commit: str | None) -> tuple[str | None, ...]:
        """How it was merged decides which of these the branch holds: after a fast-forward it is
        known by its last commit."""
        return (self.merge_commit_sha, self.squash_commit_sha, commit, self.sha)


class GitLabCommit(msgspec.Struct):
    """One commit of a comparison. GitLab tells an author's name, not who that is at GitLab."""

    id: str
    title: str
    created_at: datetime
    committed_date: datetime | None = None
    author_name: str | None = None
    parent_ids: list[str] = []


class GitLabFile(HostFile, kw_only=True):
    """A file of a merge request, a commit or a comparison; `diff` is empty where it is too large or
    collapsed."""

    path: str = msgspec.field(name="new_path")
    patch: str | None = msgspec.field(name="diff", default=None)
    before: str | None = msgspec.field(name="old_path", default=None)


class GitLabComparison(msgspec.Struct):
    """GET /projects/:id/repository/compare."""

    commits: list[GitLabCommit]
    diffs: list[GitLabFile]
    compare_timeout: bool = False


class GitLabContent(msgspec.Struct):
    """GET /projects/:id/repository/files/:path."""

    content: str
    encoding: str
    size: int = 0


class GitLabProject(Repository):
    """`name` is the project's path or number."""

    vendor = VENDOR
    noun = "project"
    pages = "/-"
    commits = "/repository/commits"
    merges = "/merge_requests"
    merge_files = "/diffs"
    merge_page = "/merge_requests"
    release_page = "/releases"
    run_page = "/pipelines"
    merge_mark = "!"
    listed_merges = "merge requests"
    run_noun = "pipeline"
    unnamed_run = "pipeline"
    merge_list = list[MergeRequest]
    file_list = list[GitLabFile]

    @staticmethod
    def path_of(name: str) -> str:
        """Its path in the API."""
        return f"/projects/{quote(name, safe='')}"

    async def _read_branch(self) -> str:
        project = await self._session.get(self._path, type=ProjectAnswer)
        # The settings may hold the project's number, which makes no link.
        self._web = f"{self._base}/{quote(project.path_with_namespace)}{self.pages}"
        # An empty project has no default branch.
        return project.default_branch or "main"

    async def rollouts(self, window: Window) -> CodeHostList[Rollout]:
        """Deployments, the newest first; also those just before the window, to compare with."""
        params = [("order_by", "created_at"), ("sort", "desc"), ("per_page", str(PER_PAGE))]
        deployments, cut = await self._deployments(list[GitLabDeployment], params, window)
        rollouts = [
            self._rollout(deployment) for deployment in deployments if deployment.status in _STATES
        ]
        inside = tuple(rollout for rollout in rollouts if rollout.at <= window.end)
        query = query_of(f"{self._path}/deployments", params)
        return CodeHostList(inside, query, f"{self._web}/environments", cut)

    def _rollout(self, deployment: GitLabDeployment) -> Rollout:
        environment = deployment.environment.name if deployment.environment else ""
        job = deployment.deployable
        return Rollout(
            revision=deployment.sha,
            environment=environment,
            at=utc(_ended(deployment)),
            title=(
                f"Deployment of {short(deployment.ref, 60)} to "
                f"{short(environment, 60) or 'an environment'}"
            ),
            state=_STATES[deployment.status],
            author=name_of(deployment.user),
            link=f"{self._web}/jobs/{job.id}" if job and job.id else f"{self._web}/environments",
            production=self._production(environment, None),
        )

    async def runs(self, window: Window) -> CodeHostList[PipelineRun]:
        """Pipelines of the default branch that ended in the window."""
        path = f"{self._path}/pipelines"
        params = [
            ("ref", self._branch),
            ("updated_after", stamp(window.start)),
            ("updated_before", stamp(window.end)),
            *LATEST_FIRST,
        ]
        listing = await self._session.pages(path, params, type=list[Pipeline], most_pages=1)
        cut = f"only the latest {len(listing.values)} pipelines" if listing.more else None
        link = f"{self._web}/pipelines?ref={quote(self._branch, safe='')}"
        runs = tuple(self._run(pipeline) for pipeline in listing.values)
        return CodeHostList(runs, query_of(path, params), link, cut)

    def _merged_query(self, window: Window, branch: str) -> tuple[Params, str]:
        params = [("state", "merged"), ("target_branch", branch)]
        page = f"/merge_requests?state=merged&target_branch={quote(branch, safe='')}"
        return [*params, ("updated_after", stamp(window.start)), *LATEST_FIRST], page

    async def compare(self, base: str, head: str) -> CodeHostList[CodeComparison]:
        """What lies between two revisions."""
        path = f"{self._path}/repository/compare"
        answer = await self._session.get(
            path, [("from", base), ("to", head)], type=GitLabComparison
        )
        commits = tuple(commit_of(c, self._commit_link(c.id)) for c in answer.commits)
        comparison = CodeComparison(
            # The oldest come first, so the latest are at the end.
            commits[-MOST_COMMITS:],
            tuple(f.path[:LONGEST_PATH] for f in answer.diffs),
            max(0, len(commits) - MOST_COMMITS),
            answer.compare_timeout,
            # Nothing lies between where the head is the older of the two.
            0 if not commits and not answer.compare_timeout else None,
        )
        link = f"{self._web}/compare/{quote(base, safe='')}...{quote(head, safe='')}"
        return CodeHostList((comparison,), f"GET {path}?from={base}&to={head}", link)

    async def _files_of_commit(self, sha: str) -> CodeHostList[FileChange]:
        path = f"{self._path}{self.commits}/{quote(sha, safe='')}/diff"
        return await self._files(path, self._commit_link(sha))

    async def content(self, path: str, revision: str) -> bytes:
        """A file's content at a revision. Raises ConnectorError with status 404 where there is no
        such file."""
        call = f"{self._path}/repository/files/{quote(path, safe='')}"
        answer = await self._session.get(call, [("ref", revision)], type=GitLabContent)
        if answer.encoding != "base64":
            raise ConnectorError(VENDOR, call, "the file's content cannot be decoded")
        return self._decoded(call, answer.content)


class GitLabConnector(CodeConnector[GitLabSettings]):
    """Changes and code of GitLab's projects."""

    name = VENDOR
    title = "GitLab"
    setting = "gitlab_project"
    names = _NAME
    names_problem = "must be group/project or the project's number"
    repository = GitLabProject
    repository_answer = ProjectAnswer
    lists: ClassVar = {
        "deployments": "/deployments",
        "merge requests": "/merge_requests",
        "pipelines": "/pipelines",
        "releases": "/releases",
        "code": "/repository/commits",
    }
    writing_scopes = frozenset({"api", "write_repository", "write_registry", "admin_mode", "sudo"})
    """docs.gitlab.com/security/tokens/access_token_scopes; `read_api` is all that is needed."""
    advised = "one with read_api alone"
    required = ("token",)
    usual_limits = Limits(
        deadline_s=30, max_bytes=32 * 1024 * 1024, requests_per_s=5, concurrency=4
    )
    """gitlab.com allows 2,000 requests a minute, but 300 of files of a repository and 400 of a
    project each (docs.gitlab.com/user/gitlab_com, "Rate limits on GitLab.com")."""

    def _server(self, section: GitLabSettings) -> tuple[str, str, dict[str, str]]:
        token = section.token.get_secret_value() if section.token else ""
        headers = {"PRIVATE-TOKEN": token, "User-Agent": "faultline"}
        return f"{section.url}/api/v4", section.url, headers

    async def _scopes(self, session: LinkedSession) -> frozenset[str]:
        """The token's scopes; none where it is of a kind that does not tell."""
        try:
            return frozenset(
                (await session.get("/personal_access_tokens/self", type=TokenAnswer)).scopes
            )
        except ConnectorError as error:
            # A token that is not accepted fails every other call as well.
            if error.status == 401:
                raise
            return frozenset()

    def _warning(self, name: str, page: LinkedPage[Any], scopes: frozenset[str]) -> str:
        access = page.value.permissions
        levels = [0]
        if access is not None:
            granted = (access.project_access, access.group_access)
            levels += [grant.access_level for grant in granted if grant]
        # Scopes narrow what the user's role allows, so the role counts only without them.
        pushes = not scopes and max(levels) >= DEVELOPER
        return f"the token's user may push to {name}" if pushes else ""


def commit_of(answer: GitLabCommit, link: str) -> CodeCommit:
    """A commit."""
    at = utc(answer.committed_date or answer.created_at)
    author = short(answer.author_name, 100) if answer.author_name else None
    return CodeCommit(
        answer.id, short(answer.title, 200), at, author, link, tuple(answer.parent_ids)
    )


def _ended(deployment: GitLabDeployment) -> datetime:
    """When a deployment was over, or began where it is not."""
    job = deployment.deployable
    if deployment.status not in ("success", "failed"):
        return (job.started_at if job else None) or deployment.created_at
    ended = deployment.finished_at or (job.finished_at if job else None)
    return ended or deployment.updated_at or deployment.created_at
