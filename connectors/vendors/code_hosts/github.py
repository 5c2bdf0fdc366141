"""GitHub: deployments, releases, workflow runs, merged pull requests and commits with their diffs,
and code at a revision.

Reading only: GET is all that can be sent, but for the one POST with which a GitHub App gets a token
that may only read (`faultline.connectors.vendors.code_hosts.github_app`). Answers are as
docs.github.com/rest (2022-11-28) has them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit

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
    file_changes,
    name_of,
)
from faultline.connectors.shared.http.linked_pages import (
    LinkedPage,
    LinkedSession,
    query_of,
)
from faultline.connectors.shared.rows.collection_builder import readable, stamp
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.vendor_text import plain_url, short
from faultline.connectors.vendors.code_hosts import GitHubSettings
from faultline.connectors.vendors.code_hosts.github_app import VENDOR, GitHubApp

# `.` and `..` would lead out of the path.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
MOST_STATUSES, MOST_EARLIER = 10, 4
"""Deployments in the window, and before it, whose statuses are asked: one request each."""
MOST_FILES = 300
"""GitHub names at most that many files of a comparison or a commit."""
_STATES: dict[str, RolloutState] = {
    "success": "done",
    "inactive": "done",
    "failure": "failed",
    "error": "failed",
    "in_progress": "running",
}
"""docs.github.com/rest/deployments/statuses; `inactive` is what a success becomes when the next one
follows. The others (`queued`, `pending`, `waiting`) have not begun."""


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
    creator: HostUser | None = None
    production_environment: bool | None = None
    transient_environment: bool | None = None


class DeploymentStatus(msgspec.Struct):
    """GET /repos/{owner}/{repo}/deployments/{id}/statuses, the newest first."""

    state: str
    created_at: datetime


class WorkflowRun(HostRun, kw_only=True):
    """One of GET /repos/{owner}/{repo}/actions/runs."""

    sha: str = msgspec.field(name="head_sha")
    author: HostUser | None = msgspec.field(name="actor", default=None)
    conclusion: str | None = None

    @property
    def state(self) -> RolloutState | None:
        """How it ended."""
        if self.status != "completed":
            return "running"
        if self.conclusion in ("failure", "timed_out", "startup_failure"):
            return "failed"
        return "done" if self.conclusion == "success" else None


class WorkflowRuns(msgspec.Struct):
    """GET /repos/{owner}/{repo}/actions/runs."""

    total_count: int
    workflow_runs: list[WorkflowRun]


class PullRequest(HostMerge, kw_only=True):
    """GET /repos/{owner}/{repo}/pulls and /commits/{sha}/pulls."""

    author: HostUser | None = msgspec.field(name="user", default=None)


class _Signed(msgspec.Struct):
    date: datetime | None = None


class _GitCommit(msgspec.Struct):
    message: str
    committer: _Signed | None = None


class _Parent(msgspec.Struct):
    sha: str


class GitHubFile(HostFile, kw_only=True):
    """A file of a pull request, a commit or a comparison."""

    path: str = msgspec.field(name="filename")
    before: str | None = msgspec.field(name="previous_filename", default=None)


class GitHubCommit(msgspec.Struct):
    """One commit of a comparison, or GET /repos/{owner}/{repo}/commits/{ref}."""

    sha: str
    commit: _GitCommit
    author: HostUser | None = None
    parents: list[_Parent] = []
    files: list[GitHubFile] | None = None


class GitHubComparison(msgspec.Struct):
    """GET /repos/{owner}/{repo}/compare/{base}...{head}."""

    status: str
    behind_by: int
    total_commits: int
    commits: list[GitHubCommit]
    files: list[GitHubFile] | None = None


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


class GitHubRepository(Repository):
    """`name` is owner/repository."""

    vendor = VENDOR
    noun = "repository"
    pages = ""
    commits = "/commits"
    merges = "/pulls"
    merge_files = "/files"
    merge_page = "/pull"
    release_page = "/releases/tag"
    run_page = "/actions/runs"
    merge_mark = "#"
    listed_merges = "closed pull requests"
    run_noun = "workflow"
    unnamed_run = "a workflow without a name"
    merge_list = list[PullRequest]
    file_list = list[GitHubFile]

    @staticmethod
    def path_of(name: str) -> str:
        """Its path in the API."""
        return "/repos/" + "/".join(quote(part, safe="") for part in name.split("/"))

    async def _read_branch(self) -> str:
        answer = await self._session.get(self._path, type=RepositoryAnswer)
        return answer.default_branch

    async def rollouts(self, window: Window) -> CodeHostList[Rollout]:
        """Deployments in the window and those just before it, with the state they reached and
        when."""
        params = [("per_page", str(PER_PAGE))]
        deployments, cut = await self._deployments(list[GitHubDeployment], params, window)
        # Transient environments are those of pull requests.
        lasting = [deployment for deployment in deployments if not deployment.transient_environment]
        lasting.sort(key=lambda deployment: deployment.created_at, reverse=True)
        inside, earlier = [], []
        for deployment in lasting:
            at = utc(deployment.created_at)
            if at < window.start:
                earlier.append(deployment)
            elif at <= window.end:
                inside.append(deployment)
        if len(inside) > MOST_STATUSES:
            cut = f"only the latest {MOST_STATUSES} of {len(inside)} deployments were looked at"
        chosen = _with_statuses(inside, earlier)
        rollouts = await asyncio.gather(*(self._rollout(deployment) for deployment in chosen))
        params += [("environment", environment) for environment in self._environments]
        query = f"{query_of(f'{self._path}/deployments', params)} and their statuses"
        return CodeHostList(tuple(readable(rollouts)), query, f"{self._web}/deployments", cut)

    async def _rollout(self, deployment: GitHubDeployment) -> Rollout | None:
        path = f"{self._path}/deployments/{deployment.id}/statuses"
        statuses = await self._session.get(
            path, [("per_page", str(PER_PAGE))], type=list[DeploymentStatus]
        )
        last = _decisive(statuses)
        if last is not None and last.state not in _STATES:
            return None
        # GitHub sets `inactive` when the next deployment follows, not when this one arrived.
        at = utc(last.created_at if last and last.state != "inactive" else deployment.created_at)
        where = short(deployment.environment, 60) or "an environment without a name"
        phrase = f": {short(deployment.description, 80)}" if deployment.description else ""
        return Rollout(
            revision=deployment.sha,
            environment=deployment.environment,
            at=at,
            title=f"Deployment of {short(deployment.ref, 60)} to {where}{phrase}",
            state=_STATES[last.state] if last else "done",
            author=name_of(deployment.creator),
            link=f"{self._web}/deployments/{quote(deployment.environment, safe='')}",
            production=self._production(deployment.environment, deployment.production_environment),
        )

    async def runs(self, window: Window) -> CodeHostList[PipelineRun]:
        """Workflow runs of the default branch in the window."""
        path = f"{self._path}/actions/runs"
        created = f"{stamp(window.start)}..{stamp(window.end)}"
        params = [("branch", self._branch), ("created", created), ("per_page", str(PER_PAGE))]
        answer = await self._session.get(path, params, type=WorkflowRuns)
        left_out = answer.total_count - len(answer.workflow_runs)
        cut = None
        if left_out > 0:
            cut = f"only the latest {len(answer.workflow_runs)} of {answer.total_count} runs"
        search = quote(f"branch:{self._branch} created:{created}", safe="")
        runs = tuple(self._run(run) for run in answer.workflow_runs)
        return CodeHostList(
            runs, query_of(path, params), f"{self._web}/actions?query={search}", cut
        )

    def _merged_query(self, window: Window, branch: str) -> tuple[Params, str]:
        between = f"{stamp(window.start)}..{stamp(window.end)}"
        search = quote(f"is:pr is:merged base:{branch} merged:{between}", safe="")
        params = [("state", "closed"), ("base", branch), ("sort", "updated"), ("direction", "desc")]
        return [*params, ("per_page", str(PER_PAGE))], f"/pulls?q={search}"

    async def compare(self, base: str, head: str) -> CodeHostList[CodeComparison]:
        """What lies between two revisions."""
        between = f"{quote(base, safe='')}...{quote(head, safe='')}"
        path = f"{self._path}/compare/{between}"
        answer = await self._session.get(path, type=GitHubComparison)
        commits = readable(
            commit_of(commit, self._commit_link(commit.sha)) for commit in answer.commits
        )
        files = answer.files or []
        comparison = CodeComparison(
            tuple(commits),
            tuple(file.path[:LONGEST_PATH] for file in files),
            max(0, answer.total_commits - len(answer.commits)),
            len(files) >= MOST_FILES,
            answer.behind_by if answer.status == "behind" else None,
        )
        return CodeHostList((comparison,), f"GET {path}", f"{self._web}/compare/{between}")

    async def _files_of_commit(self, sha: str) -> CodeHostList[FileChange]:
        path = f"{self._path}/commits/{quote(sha, safe='')}"
        files = (await self._session.get(path, type=GitHubCommit)).files or []
        cut = f"only the first {len(files)} files" if len(files) >= MOST_FILES else None
        return CodeHostList(file_changes(files), f"GET {path}", self._commit_link(sha), cut)

    async def content(self, path: str, revision: str) -> bytes:
        """A file's content at a revision. Raises ConnectorError with status 404 where there is no
        such file."""
        call = f"{self._path}/contents/{quote(path, safe='')}"
        # Without `ref` GitHub takes the default branch.
        params = [] if revision == "HEAD" else [("ref", revision)]
        answer = await self._session.get(call, params, type=CONTENT)
        # A folder is answered as a list.
        if isinstance(answer, list) or answer.type != "file":
            raise ConnectorError(VENDOR, call, "is not a file", status=404)
        if answer.encoding != "base64":
            raise ConnectorError(VENDOR, call, "the file is too large to show")
        return self._decoded(call, answer.content)


class GitHubConnector(CodeConnector[GitHubSettings]):
    """Changes and code of GitHub's repositories, with a token or as an app's installation."""

    name = VENDOR
    title = "GitHub"
    setting = "github_repository"
    names = _NAME
    names_problem = "must be owner/repository"
    repository = GitHubRepository
    repository_answer = RepositoryAnswer
    lists: ClassVar = {
        "deployments": "/deployments",
        "pull requests": "/pulls",
        "workflow runs": "/actions/runs",
        "releases": "/releases",
        "code": "/commits",
    }
    writing_scopes = frozenset(
        {"repo", "public_repo", "workflow", "repo_deployment", "admin:org", "delete_repo"}
    )
    """Scopes of a classic token (docs.github.com, "Scopes for OAuth apps"); none reads code
    alone."""
    advised = "a fine-grained one that may only read"

    required = ("token", "private_key")
    usual_limits = Limits(
        deadline_s=30, max_bytes=32 * 1024 * 1024, requests_per_s=10, concurrency=6
    )
    """GitHub allows 5,000 requests an hour, and 900 points (one for each GET) a minute."""

    def _server(self, section: GitHubSettings) -> tuple[str, str, dict[str, str]]:
        headers = {
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": "faultline",
        }
        self._app = None
        if section.token is not None:
            headers["Authorization"] = f"Bearer {section.token.get_secret_value()}"
        else:
            self._app = GitHubApp.of(section)
        web = plain_url(section.app_url, VENDOR) if section.app_url else web_of(section.api_url)
        return section.api_url, web, headers

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[LinkedSession]:
        # An app's token holds for an hour, so each session asks for it.
        headers = {}
        if self._app is not None:
            headers["Authorization"] = f"Bearer {await self._app.token(self.limits)}"
        async with self._http.open(headers=headers) as session:
            yield session

    def _warning(self, name: str, page: LinkedPage[Any], scopes: frozenset[str]) -> str:
        """A classic token says its scopes; of others only what its user, or the app, may do in the
        repository is known."""
        if "x-oauth-scopes" in page.headers:
            named = page.headers["x-oauth-scopes"].split(",")
            return self._scopes_warning(scope.strip() for scope in named)
        permissions = page.value.permissions or {}
        if self._app or not any(permissions.get(p) for p in ("push", "maintain", "admin")):
            return ""
        return (
            f"the token's user may push to {name}: see that the token itself has read permissions "
            "alone"
        )


def web_of(api_url: str) -> str:
    """Where people see what an API serves: GitHub's, a data-residency one's (`api.`), or a server's
    (`/api/v3`)."""
    parts = urlsplit(api_url)
    host = parts.netloc.removeprefix("api.")
    return f"{parts.scheme}://{host}{parts.path.removesuffix('/api/v3')}"


def commit_of(answer: GitHubCommit, link: str) -> CodeCommit | None:
    """A commit; None without a time."""
    # The author's date survives a rebase; the committer's is when the commit was applied.
    at = answer.commit.committer.date if answer.commit.committer else None
    if at is None:
        return None
    # By Git's convention, the first line of a message is its title.
    title = short((answer.commit.message.splitlines() or [""])[0], 200)
    return CodeCommit(
        answer.sha,
        title,
        utc(at),
        name_of(answer.author),
        link,
        tuple(p.sha for p in answer.parents),
    )


def _with_statuses(
    inside: Sequence[GitHubDeployment], earlier: Sequence[GitHubDeployment]
) -> list[GitHubDeployment]:
    """The deployments whose statuses are asked: of the window, and where there is room what ran in
    the same environments before."""
    if len(inside) > MOST_STATUSES:
        return list(inside[:MOST_STATUSES])
    environments = {deployment.environment for deployment in inside}
    same = [
        deployment
        for deployment in earlier
        if not environments or deployment.environment in environments
    ]
    return [*inside, *same[:MOST_EARLIER]]


def _decisive(
    statuses: Sequence[DeploymentStatus],
) -> DeploymentStatus | None:
    """The first success, else the latest status."""
    # The first success is when the revision arrived; what follows is its later fate.
    ordered = sorted(statuses, key=lambda status: status.created_at)
    for status in ordered:
        if status.state == "success":
            return status
    return ordered[-1] if ordered else None
