"""One project at GitLab, as the collection of changes and code reads it."""

from __future__ import annotations

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
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.gitlab import answers

VENDOR = "gitlab"
PER_PAGE = 100
DEPLOYMENT_PAGES, MERGE_PAGES, FILE_PAGES = 2, 3, 3
MOST_COMMITS = 1000
"""Commits of a comparison that are looked at."""
_STATES: dict[str, Literal["done", "failed", "running"]] = {
    "success": "done",
    "failed": "failed",
    "running": "running",
}
"""docs.gitlab.com/api/deployments; the others (`created`, `blocked`, `canceled`, `skipped`) have
not begun."""
_RUNNING = frozenset({"running", "pending", "created", "preparing", "waiting_for_resource"})

Production = Callable[[str, bool | None], bool]


class GitLabProject:
    """`name` is the project's path or number. `web` is the base of links for people."""

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
        self._path = f"/projects/{quote(name, safe='')}"
        self._base = web
        self._web = f"{web}/{name}"
        self._production = production
        self._environments = tuple(environments)
        self._branch = ""

    async def default_branch(self) -> str:
        """Its default branch; fails where the token may not read the project at all."""
        try:
            project = await self._session.get(self._path, type=answers.ProjectAnswer)
        except ConnectorError as error:
            if error.status == 404:
                phrase = "not found, or the token may not read this project"
                raise ConnectorError(VENDOR, self._path, phrase, status=404) from error
            raise
        # The settings may hold the project's number, which makes no link.
        self._web = f"{self._base}/{quote(project.path_with_namespace)}"
        # An empty project has no default branch.
        self._branch = project.default_branch or "main"
        return self._branch

    async def rollouts(self, window: Window) -> CodeHostList[Rollout]:
        """Deployments, the newest first; also those just before the window, to compare with."""
        path = f"{self._path}/deployments"
        lab_deployments: list[answers.GitLabDeployment] = []
        cut = None
        base = [("order_by", "created_at"), ("sort", "desc"), ("per_page", str(PER_PAGE))]
        for environment in self._environments or (None,):
            params = [*base, *([("environment", environment)] if environment else [])]
            listing = await self._session.pages(
                path, params, type=list[answers.GitLabDeployment], most_pages=DEPLOYMENT_PAGES
            )
            lab_deployments += listing.values
            if listing.more and utc(listing.values[-1].created_at) > window.start:
                cut = f"only the latest {len(listing.values)} deployments were asked"
        rollouts = tuple(self._rollout(d) for d in lab_deployments if d.status in _STATES)
        inside = tuple(r for r in rollouts if r.at <= window.end)
        query = f"GET {path}?" + "&".join(f"{k}={v}" for k, v in base)
        return CodeHostList(inside, query, f"{self._web}/-/environments", cut)

    def _rollout(self, deployment: answers.GitLabDeployment) -> Rollout:
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
            author=answers.username(deployment.user),
            link=f"{self._web}/-/jobs/{job.id}"
            if job and job.id
            else f"{self._web}/-/environments",
            production=self._production(environment, None),
        )

    async def runs(self, window: Window) -> CodeHostList[PipelineRun]:
        """Pipelines of the default branch that ended in the window."""
        path = f"{self._path}/pipelines"
        params = [
            ("ref", self._branch),
            ("updated_after", _stamp(window.start)),
            ("updated_before", _stamp(window.end)),
        ]
        params += [("order_by", "updated_at"), ("sort", "desc"), ("per_page", str(PER_PAGE))]
        listing = await self._session.pages(path, params, type=list[answers.Pipeline], most_pages=1)
        query = f"GET {path}?" + "&".join(f"{k}={v}" for k, v in params)
        cut = f"only the latest {len(listing.values)} pipelines" if listing.more else None
        link = f"{self._web}/-/pipelines?ref={quote(self._branch, safe='')}"
        return CodeHostList(tuple(self._run(p) for p in listing.values), query, link, cut)

    def _run(self, pipeline: answers.Pipeline) -> PipelineRun:
        name, at = short(pipeline.name or "pipeline", 80), utc(pipeline.updated_at)
        link, failed = f"{self._web}/-/pipelines/{pipeline.id}", pipeline.status == "failed"
        running = pipeline.status in _RUNNING
        rollout = None
        # Only a pipeline with a name can say that it deploys.
        if DEPLOYS.search(pipeline.name or "") and (
            failed or running or pipeline.status == "success"
        ):
            state: Literal["done", "failed", "running"] = (
                "failed" if failed else "running" if running else "done"
            )
            began = utc(pipeline.created_at)
            when, elsewhere = began if running else at, bool(ELSEWHERE.search(name))
            rollout = Rollout(
                pipeline.sha,
                f"pipeline {name}",
                when,
                f"Pipeline {name}",
                state,
                None,
                link,
                not elsewhere,
            )
        return PipelineRun(name, pipeline.sha, at, failed, link, None, rollout)

    async def releases(self, window: Window) -> CodeHostList[Rollout]:
        """Releases, the newest first; also those before the window, to compare with."""
        path = f"{self._path}/releases"
        response = await self._session.get(
            path, [("per_page", "50")], type=list[answers.GitLabRelease]
        )
        rollouts = tuple(
            Rollout(
                revision=r.tag_name,
                environment="releases",
                at=utc(r.released_at),
                title=f"Release {short(r.name or r.tag_name, 80)}",
                author=answers.username(r.author),
                link=f"{self._web}/-/releases/{quote(r.tag_name, safe='')}",
            )
            for r in response
            if r.released_at is not None
            and not r.upcoming_release
            and utc(r.released_at) <= window.end
        )
        return CodeHostList(rollouts, f"GET {path}?per_page=50", f"{self._web}/-/releases")

    async def merged(self, window: Window, branch: str) -> CodeHostList[CodeChange]:
        """Merge requests merged into the branch in the window."""
        path = f"{self._path}/merge_requests"
        params = [
            ("state", "merged"),
            ("target_branch", branch),
            ("updated_after", _stamp(window.start)),
        ]
        params += [("order_by", "updated_at"), ("sort", "desc"), ("per_page", str(PER_PAGE))]
        listing = await self._session.pages(
            path, params, type=list[answers.MergeRequest], most_pages=MERGE_PAGES
        )
        changes = [
            c
            for m in listing.values
            if (c := answers.change_of_merge(m, self._merge_link(m.iid))) is not None
        ]
        inside = tuple(c for c in changes if window.start <= c.at <= window.end)
        cut = (
            f"only the latest {len(listing.values)} merge requests were asked"
            if listing.more
            else None
        )
        query = f"GET {path}?" + "&".join(f"{k}={v}" for k, v in params)
        link = f"{self._web}/-/merge_requests?state=merged&target_branch={quote(branch, safe='')}"
        return CodeHostList(inside, query, link, cut)

    async def compare(self, base: str, head: str) -> CodeHostList[CodeComparison]:
        """What lies between two revisions."""
        path = f"{self._path}/repository/compare"
        answer = await self._session.get(
            path, [("from", base), ("to", head)], type=answers.GitLabComparison
        )
        commits = tuple(answers.commit_of(c, self._commit_link(c.id)) for c in answer.commits)
        comparison = CodeComparison(
            # The oldest come first, so the latest are at the end.
            commits[-MOST_COMMITS:],
            tuple(f.new_path[: answers.LONGEST_PATH] for f in answer.diffs),
            max(0, len(commits) - MOST_COMMITS),
            answer.compare_timeout,
            # Nothing lies between where the head is the older of the two.
            0 if not commits and not answer.compare_timeout else None,
        )
        link = f"{self._web}/-/compare/{quote(base, safe='')}...{quote(head, safe='')}"
        return CodeHostList((comparison,), f"GET {path}?from={base}&to={head}", link)

    async def change_of(self, commit: CodeCommit) -> CodeChange:
        """The merge request that brought a commit, or the commit itself."""
        path = f"{self._path}/repository/commits/{quote(commit.sha, safe='')}/merge_requests"
        for merge in await self._session.get(path, type=list[answers.MergeRequest]):
            change = answers.change_of_merge(merge, self._merge_link(merge.iid), commit.sha)
            if change is not None:
                return change
        shas = frozenset({commit.sha})
        return CodeChange(
            commit.sha, commit.title, commit.at, commit.author, commit.link, None, shas
        )

    async def files_of(self, change: CodeChange) -> CodeHostList[FileChange]:
        """The files of a merge request or a commit, with their hunks."""
        if change.number is not None:
            path, link = (
                f"{self._path}/merge_requests/{change.number}/diffs",
                f"{self._merge_link(change.number)}/diffs",
            )
        else:
            path = f"{self._path}/repository/commits/{quote(change.id, safe='')}/diff"
            link = self._commit_link(change.id)
        params = [("per_page", str(PER_PAGE))]
        listing = await self._session.pages(
            path, params, type=list[answers.GitLabChangedFile], most_pages=FILE_PAGES
        )
        cut = f"only the first {len(listing.values)} files" if listing.more else None
        return CodeHostList(answers.file_changes(list(listing.values)), f"GET {path}", link, cut)

    async def content(self, path: str, revision: str) -> bytes:
        """A file's content at a revision. Raises ConnectorError with status 404 where there is no
        such file."""
        call = f"{self._path}/repository/files/{quote(path, safe='')}"
        answer = await self._session.get(call, [("ref", revision)], type=answers.GitLabContent)
        if answer.encoding != "base64":
            raise ConnectorError(VENDOR, call, "the file's content cannot be decoded")
        try:
            return base64.b64decode(answer.content)
        except (binascii.Error, ValueError) as error:
            raise ConnectorError(VENDOR, call, "the file's content cannot be decoded") from error

    def file_link(self, path: str, revision: str, line: int) -> str:
        """The page of a line."""
        return f"{self._web}/-/blob/{quote(revision, safe='')}/{quote(path)}#L{line}"

    def _merge_link(self, number: int) -> str:
        return f"{self._web}/-/merge_requests/{number}"

    def _commit_link(self, sha: str) -> str:
        return f"{self._web}/-/commit/{quote(sha, safe='')}"


def _ended(deployment: answers.GitLabDeployment) -> datetime:
    """When a deployment was over, or began where it is not."""
    job = deployment.deployable
    if deployment.status not in ("success", "failed"):
        return (job.started_at if job else None) or deployment.created_at
    ended = deployment.finished_at or (job.finished_at if job else None)
    return ended or deployment.updated_at or deployment.created_at


def _stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
