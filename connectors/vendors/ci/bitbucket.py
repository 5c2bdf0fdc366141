"""Bitbucket Cloud: deployments to environments, pipelines that deploy, and pipelines of the main
branches.

REST API 2.0 as developer.atlassian.com/cloud/bitbucket/rest has it ("Pipelines", "Deployments"):
GET of a repository's pipelines, deployments and environments alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.changes.change_feeds import (
    USUAL_LIMITS,
    ChangeFeed,
    FeedAnswer,
    PagedList,
    Params,
    moment,
    person,
)
from faultline.connectors.shared.http.linked_pages import LinkedPage, LinkedSession, query_in
from faultline.connectors.vendors.ci import BitbucketSettings
from faultline.connectors.vendors.ci.build_changes import BuildFeeds, BuildRun, BuildState

T = TypeVar("T")

PER_PAGE, MOST_PAGES = 50, 3
RESULTS: dict[str, BuildState] = {"SUCCESSFUL": "done", "FAILED": "failed", "ERROR": "failed"}
"""The others were stopped, or have not begun."""


class _Name(msgspec.Struct):
    name: str = ""


class _PipelineState(msgspec.Struct):
    name: str = ""
    result: _Name | None = None


class _Commit(msgspec.Struct):
    hash: str = ""


class _Target(msgspec.Struct):
    ref_type: str = ""
    ref_name: str | None = None
    commit: _Commit | None = None
    selector: dict[str, Any] | None = None


class _Creator(msgspec.Struct):
    display_name: str = ""
    uuid: str = ""


class BitbucketPipeline(msgspec.Struct):
    """One run of a pipeline."""

    build_number: int
    state: _PipelineState
    created_on: str
    completed_on: str | None = None
    target: _Target = msgspec.field(default_factory=_Target)
    creator: _Creator | None = None


class _DeploymentState(msgspec.Struct):
    name: str = ""
    status: _Name | None = None
    started_on: str | None = None
    completed_on: str | None = None


class _Environment(msgspec.Struct):
    uuid: str = ""
    name: str = ""


class _Release(msgspec.Struct):
    name: str = ""
    commit: _Commit | None = None


class BitbucketDeployment(msgspec.Struct):
    """One deployment. Of its environment only the id is given."""

    state: _DeploymentState
    environment: _Environment = msgspec.field(default_factory=_Environment)
    release: _Release | None = None


class BitbucketPage(msgspec.Struct, Generic[T]):
    """One page of a list."""

    values: list[T]
    next: str | None = None


def _following(page: LinkedPage[BitbucketPage[T]], _: Params) -> Params | None:
    return query_in(page.value.next)


PIPELINES = PagedList(
    BitbucketPage[BitbucketPipeline],
    lambda page: page.values,
    _following,
    MOST_PAGES,
    lambda pipeline: moment(pipeline.created_on),
)
DEPLOYMENTS = PagedList(
    BitbucketPage[BitbucketDeployment],
    lambda page: page.values,
    _following,
    MOST_PAGES,
    lambda deployment: moment(deployment.state.started_on),
)


class Bitbucket(BuildFeeds[BitbucketSettings]):
    """Pipelines and deployments of some repositories."""

    name = "bitbucket"
    title = "Bitbucket"
    needs = "a token with the permission to read pipelines"
    required = ("token", "repositories")
    usual_limits = replace(USUAL_LIMITS, requests_per_s=2)
    """Bitbucket allows 1,000 requests an hour to an access token (support.atlassian.com, "API
    request limits")."""

    def feeds(self) -> Sequence[ChangeFeed]:
        """Pipelines and deployments of each repository."""
        feeds = []
        for repository in self._section.repositories:
            feeds += [
                ChangeFeed(f"pipelines of {repository}", partial(self._pipelines, repository)),
                ChangeFeed(f"deployments of {repository}", partial(self._deployments, repository)),
            ]
        return feeds

    async def _pipelines(
        self, repository: str, session: LinkedSession, window: Window
    ) -> FeedAnswer:
        path = f"/2.0/repositories/{quote(repository)}/pipelines"
        page = f"{self._section.app_url}/{quote(repository)}/pipelines"
        params = [("sort", "-created_on"), ("pagelen", str(PER_PAGE))]
        pipelines = await PIPELINES.read(session, path, params, window)
        runs = [_pipeline_run(pipeline, repository, page) for pipeline in pipelines.values]
        return self._rules.answer(runs, pipelines.query, page, pipelines.cut)

    async def _deployments(
        self, repository: str, session: LinkedSession, window: Window
    ) -> FeedAnswer:
        path = f"/2.0/repositories/{quote(repository)}/deployments"
        page = f"{self._section.app_url}/{quote(repository)}/deployments"
        params = [("sort", "-state.started_on"), ("pagelen", str(PER_PAGE))]
        deployments = await DEPLOYMENTS.read(session, path, params, window)
        # Deployments hold an environment's id alone, so take its name from this list.
        listed = f"/2.0/repositories/{quote(repository)}/environments"
        places = await session.get(listed, [("pagelen", "100")], type=BitbucketPage[_Environment])
        names = {environment.uuid: environment.name for environment in places.values}
        runs = [
            _deployment_run(deployment, repository, names, page)
            for deployment in deployments.values
        ]
        return self._rules.answer(runs, deployments.query, page, deployments.cut)


def _pipeline_run(pipeline: BitbucketPipeline, repository: str, page: str) -> BuildRun:
    result = RESULTS.get(pipeline.state.result.name if pipeline.state.result else "")
    state: BuildState | None = "running" if pipeline.state.name == "IN_PROGRESS" else result
    pattern = (pipeline.target.selector or {}).get("pattern")
    name = repository.rpartition("/")[2]
    if isinstance(pattern, str) and pattern:
        # A custom pipeline is called by its name; others by the branch that they are for.
        name += f" {pattern}"
    return BuildRun(
        name,
        str(pipeline.build_number),
        moment(pipeline.completed_on) or moment(pipeline.created_on),
        state,
        # A run of a tag counts like one of a main branch.
        branch="" if pipeline.target.ref_type == "tag" else pipeline.target.ref_name or "",
        revision=pipeline.target.commit.hash if pipeline.target.commit else "",
        author=person(pipeline.creator.display_name, pipeline.creator.uuid)
        if pipeline.creator
        else None,
        link=f"{page}/results/{pipeline.build_number}",
        repository=repository,
    )


def _deployment_run(
    deployment: BitbucketDeployment, repository: str, names: dict[str, str], page: str
) -> BuildRun:
    state: BuildState | None = RESULTS.get(
        deployment.state.status.name if deployment.state.status else ""
    )
    if deployment.state.name == "IN_PROGRESS":
        state = "running"
    commit = deployment.release.commit if deployment.release else None
    return BuildRun(
        repository.rpartition("/")[2],
        (deployment.release.name if deployment.release else "").removeprefix("#"),
        moment(deployment.state.completed_on) or moment(deployment.state.started_on),
        state,
        revision=commit.hash if commit else "",
        environment=names.get(deployment.environment.uuid) or "an environment",
        link=page,
        repository=repository,
    )
