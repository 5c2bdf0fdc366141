"""One repository at GitHub, as the collection of changes and code reads it."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal
from urllib.parse import quote

from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.changes.code_changes import (
    CodeChange,
    CodeCommit,
    CodeComparison,
    FileChange,
    Rollout,
    utc,
)
from faultline.connectors.shared.changes.code_connector import DEPLOYS, ELSEWHERE
from faultline.connectors.shared.changes.code_host import CodeHostList, PipelineRun
from faultline.connectors.shared.http.linked_pages import LinkedSession
from faultline.connectors.shared.rows.evidence_rows import readable
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.github import answers

VENDOR = "github"
PER_PAGE = 100
DEPLOYMENT_PAGES, PULL_PAGES, FILE_PAGES = 2, 3, 3
MOST_STATUSES, MOST_EARLIER = 10, 4
"""Deployments in the window, and before it, whose statuses are asked: one request each."""
MOST_FILES = 300
"""GitHub names at most that many files of a comparison or a commit."""
_STATES: dict[str, Literal["done", "failed", "running"]] = {
    "success": "done",
    "inactive": "done",
    "failure": "failed",
    "error": "failed",
    "in_progress": "running",
}
"""docs.github.com/rest/deployments/statuses; `inactive` is what a success becomes when the next one
follows. The others (`queued`, `pending`, `waiting`) have not begun."""
_MOVED = frozenset({301, 302, 307, 308})

Production = Callable[[str, bool | None], bool]


class GitHubRepository:
    """`name` is owner/repository. `web` is the base of links for people."""

    def __init__(
        self,
        session: LinkedSession,
        name: str,
        web: str,
        production: Production,
        environments: Sequence[str] = (),
    ) -> None:
        self.name = name
        self._session = session
        self._path = "/repos/" + "/".join(quote(part, safe="") for part in name.split("/"))
        self._web = f"{web}/{name}"
        self._production = production
        self._environments = tuple(environments)
        self._branch = ""

    async def default_branch(self) -> str:
        """Its default branch; fails where the token may not read the repository at all."""
        try:
            answer = await self._session.get(self._path, type=answers.RepositoryAnswer)
        except ConnectorError as error:
            if error.status == 404:
                phrase = "not found, or the token may not read this repository"
                raise ConnectorError(VENDOR, self._path, phrase, status=404) from error
            if error.status in _MOVED:
                phrase = "the repository was renamed: correct it in the settings"
                raise ConnectorError(VENDOR, self._path, phrase, status=error.status) from error
            raise
        self._branch = answer.default_branch
        return self._branch

    async def rollouts(self, window: Window) -> CodeHostList[Rollout]:
        """Deployments in the window and those just before it, with the state they reached and
        when."""
        path = f"{self._path}/deployments"
        hub_deployments, cut = await self._deployments(path, window)
        inside = [
            hub_deployment
            for hub_deployment in hub_deployments
            if window.start <= utc(hub_deployment.created_at) <= window.end
        ]
        earlier = [
            hub_deployment
            for hub_deployment in hub_deployments
            if utc(hub_deployment.created_at) < window.start
        ]
        if len(inside) > MOST_STATUSES:
            cut = f"only the latest {MOST_STATUSES} of {len(inside)} deployments were looked at"
        chosen = _with_statuses(inside, earlier)
        rollouts = await asyncio.gather(*(self._rollout(deployment) for deployment in chosen))
        begun = tuple(rollout for rollout in rollouts if rollout is not None)
        of = "".join(f"&environment={environment}" for environment in self._environments)
        query = f"GET {path}?per_page={PER_PAGE}{of} and their statuses"
        return CodeHostList(begun, query, f"{self._web}/deployments", cut)

    async def _deployments(
        self, path: str, window: Window
    ) -> tuple[list[answers.GitHubDeployment], str | None]:
        """Deployments to the environments that last, the newest first, and what was left out."""
        hub_deployments: list[answers.GitHubDeployment] = []
        cut = None
        # Ask for each environment apart, because others would fill the pages.
        for environment in self._environments or (None,):
            params = [("per_page", str(PER_PAGE))]
            if environment:
                params.append(("environment", environment))
            listing = await self._session.pages(
                path, params, type=list[answers.GitHubDeployment], most_pages=DEPLOYMENT_PAGES
            )
            hub_deployments += listing.values
            # More pages matter only while the last entry is still in the window.
            if listing.more and utc(listing.values[-1].created_at) > window.start:
                cut = f"only the latest {len(listing.values)} deployments were asked"
        # Transient environments are those of pull requests.
        lasting = [
            hub_deployment
            for hub_deployment in hub_deployments
            if not hub_deployment.transient_environment
        ]
        lasting.sort(key=lambda hub_deployment: hub_deployment.created_at, reverse=True)
        return lasting, cut

    async def _rollout(self, deployment: answers.GitHubDeployment) -> Rollout | None:
        path = f"{self._path}/deployments/{deployment.id}/statuses"
        statuses = await self._session.get(
            path, [("per_page", str(PER_PAGE))], type=list[answers.DeploymentStatus]
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
            author=answers.login(deployment.creator),
            link=f"{self._web}/deployments/{quote(deployment.environment, safe='')}",
            production=self._production(deployment.environment, deployment.production_environment),
        )

    async def runs(self, window: Window) -> CodeHostList[PipelineRun]:
        """Workflow runs of the default branch in the window."""
        path = f"{self._path}/actions/runs"
        created = f"{_stamp(window.start)}..{_stamp(window.end)}"
        params = [("branch", self._branch), ("created", created), ("per_page", str(PER_PAGE))]
        answer = await self._session.get(path, params, type=answers.WorkflowRuns)
        left_out = answer.total_count - len(answer.workflow_runs)
        cut = None
        if left_out > 0:
            cut = f"only the latest {len(answer.workflow_runs)} of {answer.total_count} runs"
        query = f"GET {path}?branch={self._branch}&created={created}&per_page={PER_PAGE}"
        search = quote(f"branch:{self._branch} created:{created}", safe="")
        runs = tuple(self._run(run) for run in answer.workflow_runs)
        return CodeHostList(runs, query, f"{self._web}/actions?query={search}", cut)

    def _run(self, run: answers.WorkflowRun) -> PipelineRun:
        name = short(run.name or run.path, 80) or "a workflow without a name"
        at = utc(run.updated_at)
        failed = _state_of_run(run) == "failed"
        link = f"{self._web}/actions/runs/{run.id}"
        rollout = self._rollout_of_run(run, name, link)
        return PipelineRun(name, run.head_sha, at, failed, link, answers.login(run.actor), rollout)

    def _rollout_of_run(self, run: answers.WorkflowRun, name: str, link: str) -> Rollout | None:
        """The rollout that a run is by its name; None for one that was cancelled or skipped."""
        state = _state_of_run(run)
        if state is None or not DEPLOYS.search(f"{run.name or ''} {run.path.rpartition('/')[2]}"):
            return None
        return Rollout(
            run.head_sha,
            f"workflow {name}",
            utc(run.created_at if state == "running" else run.updated_at),
            f"Workflow {name}",
            state,
            answers.login(run.actor),
            link,
            not ELSEWHERE.search(name),
        )

    async def releases(self, window: Window) -> CodeHostList[Rollout]:
        """Published releases, the newest first; also those before the window, to compare with."""
        path = f"{self._path}/releases"
        response = await self._session.get(
            path, [("per_page", "50")], type=list[answers.GitHubRelease]
        )
        rollouts = []
        for release in response:
            if release.published_at is None or release.draft:
                continue
            at = utc(release.published_at)
            if at <= window.end:
                rollouts.append(self._rollout_of_release(release, at))
        return CodeHostList(tuple(rollouts), f"GET {path}?per_page=50", f"{self._web}/releases")

    def _rollout_of_release(self, release: answers.GitHubRelease, at: datetime) -> Rollout:
        return Rollout(
            revision=release.tag_name,
            environment="releases",
            at=at,
            title=f"Release {short(release.name or release.tag_name, 80)}",
            author=answers.login(release.author),
            link=f"{self._web}/releases/tag/{quote(release.tag_name, safe='')}",
            production=not release.prerelease,
        )

    async def merged(self, window: Window, branch: str) -> CodeHostList[CodeChange]:
        """Pull requests merged into the branch in the window."""
        path = f"{self._path}/pulls"
        params = [("state", "closed"), ("base", branch), ("sort", "updated"), ("direction", "desc")]
        params.append(("per_page", str(PER_PAGE)))
        listing = await self._session.pages(
            path, params, type=list[answers.PullRequest], most_pages=PULL_PAGES
        )
        changes = readable(
            answers.change_of_pull(pull, self._pull_link(pull.number)) for pull in listing.values
        )
        inside = tuple(change for change in changes if window.start <= change.at <= window.end)
        cut = None
        # Sorted by update: what was merged in the window was updated in it or later.
        if listing.more and utc(listing.values[-1].updated_at) >= window.start:
            cut = f"only the latest {len(listing.values)} closed pull requests were asked"
        between = f"{_stamp(window.start)}..{_stamp(window.end)}"
        search = quote(f"is:pr is:merged base:{branch} merged:{between}", safe="")
        query = f"GET {path}?" + "&".join(f"{name}={value}" for name, value in params)
        return CodeHostList(inside, query, f"{self._web}/pulls?q={search}", cut)

    async def compare(self, base: str, head: str) -> CodeHostList[CodeComparison]:
        """What lies between two revisions."""
        between = f"{quote(base, safe='')}...{quote(head, safe='')}"
        path = f"{self._path}/compare/{between}"
        answer = await self._session.get(path, type=answers.GitHubComparison)
        commits = readable(
            answers.commit_of(commit, self._commit_link(commit.sha)) for commit in answer.commits
        )
        files = answer.files or []
        comparison = CodeComparison(
            tuple(commits),
            tuple(file.filename[: answers.LONGEST_PATH] for file in files),
            max(0, answer.total_commits - len(answer.commits)),
            len(files) >= MOST_FILES,
            answer.behind_by if answer.status == "behind" else None,
        )
        return CodeHostList((comparison,), f"GET {path}", f"{self._web}/compare/{between}")

    async def change_of(self, commit: CodeCommit) -> CodeChange:
        """The pull request that brought a commit, or the commit itself."""
        path = f"{self._path}/commits/{quote(commit.sha, safe='')}/pulls"
        for pull in await self._session.get(path, type=list[answers.PullRequest]):
            change = answers.change_of_pull(pull, self._pull_link(pull.number), commit.sha)
            if change is not None:
                return change
        return CodeChange(
            commit.sha,
            commit.title,
            commit.at,
            commit.author,
            commit.link,
            None,
            frozenset({commit.sha}),
        )

    async def files_of(self, change: CodeChange) -> CodeHostList[FileChange]:
        """The files of a pull request or a commit, with their hunks."""
        if change.number is not None:
            path = f"{self._path}/pulls/{change.number}/files"
            params = [("per_page", str(PER_PAGE))]
            listing = await self._session.pages(
                path, params, type=list[answers.GitHubChangedFile], most_pages=FILE_PAGES
            )
            cut = f"only the first {len(listing.values)} files" if listing.more else None
            link = f"{self._pull_link(change.number)}/files"
            changed = answers.file_changes(list(listing.values))
            return CodeHostList(changed, f"GET {path}", link, cut)
        path = f"{self._path}/commits/{quote(change.id, safe='')}"
        files = (await self._session.get(path, type=answers.GitHubCommit)).files or []
        cut = f"only the first {len(files)} files" if len(files) >= MOST_FILES else None
        link = self._commit_link(change.id)
        return CodeHostList(answers.file_changes(files), f"GET {path}", link, cut)

    async def content(self, path: str, revision: str) -> bytes:
        """A file's content at a revision. Raises ConnectorError with status 404 where there is no
        such file."""
        call = f"{self._path}/contents/{quote(path, safe='')}"
        # Without `ref` GitHub takes the default branch.
        params = [] if revision == "HEAD" else [("ref", revision)]
        answer = await self._session.get(call, params, type=answers.CONTENT)
        # A folder is answered as a list.
        if isinstance(answer, list) or answer.type != "file":
            raise ConnectorError(VENDOR, call, "is not a file", status=404)
        if answer.encoding != "base64":
            raise ConnectorError(VENDOR, call, "the file is too large to show")
        try:
            return base64.b64decode(answer.content)
        except (binascii.Error, ValueError) as error:
            raise ConnectorError(VENDOR, call, "the file's content cannot be decoded") from error

    def file_link(self, path: str, revision: str, line: int) -> str:
        """The page of a line."""
        return f"{self._web}/blob/{quote(revision, safe='')}/{quote(path)}#L{line}"

    def _pull_link(self, number: int) -> str:
        return f"{self._web}/pull/{number}"

    def _commit_link(self, sha: str) -> str:
        return f"{self._web}/commit/{quote(sha, safe='')}"


def _with_statuses(
    inside: Sequence[answers.GitHubDeployment], earlier: Sequence[answers.GitHubDeployment]
) -> list[answers.GitHubDeployment]:
    """The deployments whose statuses are asked: of the window, and where there is room what ran in
    the same environments before."""
    if len(inside) > MOST_STATUSES:
        return list(inside[:MOST_STATUSES])
    environments = {hub_deployment.environment for hub_deployment in inside}
    same = [
        hub_deployment
        for hub_deployment in earlier
        if not environments or hub_deployment.environment in environments
    ]
    return [*inside, *same[:MOST_EARLIER]]


def _decisive(
    statuses: Sequence[answers.DeploymentStatus],
) -> answers.DeploymentStatus | None:
    """The first success, else the latest status."""
    # The first success is when the revision arrived; what follows is its later fate.
    ordered = sorted(statuses, key=lambda status: status.created_at)
    for status in ordered:
        if status.state == "success":
            return status
    return ordered[-1] if ordered else None


def _state_of_run(run: answers.WorkflowRun) -> Literal["done", "failed", "running"] | None:
    if run.status != "completed":
        return "running"
    if run.conclusion in ("failure", "timed_out", "startup_failure"):
        return "failed"
    return "done" if run.conclusion == "success" else None


def _stamp(at: object) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
