"""Bitbucket Cloud: deployments to environments, pipelines that deploy, and pipelines of the main
branches.

REST API 2.0 as developer.atlassian.com/cloud/bitbucket/rest has it ("Pipelines", "Deployments"):
GET of a repository's pipelines, deployments and environments alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.changes.build_changes import BuildRules, BuildRun, BuildState
from faultline.connectors.shared.changes.change_feeds import (
    ChangeFeed,
    ChangeFeeds,
    FeedAnswer,
    Params,
    RecordPage,
    moment,
    person,
    query_of,
    read_records,
)
from faultline.connectors.shared.http.linked_pages import LinkedHttp, LinkedSession
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.vendors.bitbucket.settings import BitbucketSettings

T = TypeVar("T")

VENDOR = "bitbucket"
LIMITS = Limits(deadline_s=20, max_bytes=16 * 1024 * 1024, requests_per_s=2, concurrency=2)
"""Bitbucket allows 1,000 requests an hour to an access token (support.atlassian.com, "API request
limits")."""
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


def build(bitbucket_settings: BitbucketSettings, settings: SharedSettings) -> Bitbucket | None:
    """The configured connector, or None without a token or a repository."""
    if bitbucket_settings.token is None or not bitbucket_settings.repositories:
        return None
    headers = {"Authorization": f"Bearer {bitbucket_settings.token.get_secret_value()}"}
    http = LinkedHttp(
        VENDOR, bitbucket_settings.url, headers=headers, limits=bitbucket_settings.limits(LIMITS)
    )
    return Bitbucket(http, ServiceNames.of_catalogue(settings.services), bitbucket_settings)


class Bitbucket(ChangeFeeds):
    """Pipelines and deployments of some repositories."""

    name = VENDOR
    title = "Bitbucket"
    needs = "a token with the permission to read pipelines"

    def __init__(
        self, http: LinkedHttp, names: ServiceNames, bitbucket_settings: BitbucketSettings
    ) -> None:
        super().__init__(http, names, bitbucket_settings.environments)
        self._repositories = bitbucket_settings.repositories
        self._app_url = bitbucket_settings.app_url
        self._rules = BuildRules(
            bitbucket_settings.branches, bitbucket_settings.deploys, self.counts
        )

    def feeds(self) -> Sequence[ChangeFeed]:
        """Pipelines and deployments of each repository."""
        feeds = []
        for repository in self._repositories:
            feeds += [self._pipelines(repository), self._deployments(repository)]
        return feeds

    def _pipelines(self, repository: str) -> ChangeFeed:
        path = f"/2.0/repositories/{quote(repository)}/pipelines"
        page = f"{self._app_url}/{quote(repository)}/pipelines"

        async def read(session: LinkedSession, window: Window) -> FeedAnswer:
            params = [("sort", "-created_on"), ("pagelen", str(PER_PAGE))]

            # The pages are sorted by time, so stop at the first pipeline that is too old.
            def is_older(pipeline: BitbucketPipeline) -> bool:
                at = moment(pipeline.created_on)
                return at is not None and at < window.start

            pages = _pages(session, path, BitbucketPage[BitbucketPipeline])
            records = await read_records(pages, params, most_pages=MOST_PAGES, is_older=is_older)
            runs = [_pipeline_run(pipeline, repository, page) for pipeline in records.values]
            return self._rules.answer(runs, query_of(path, params), page, records.cut)

        return ChangeFeed(f"pipelines of {repository}", read)

    def _deployments(self, repository: str) -> ChangeFeed:
        path = f"/2.0/repositories/{quote(repository)}/deployments"
        page = f"{self._app_url}/{quote(repository)}/deployments"

        async def read(session: LinkedSession, window: Window) -> FeedAnswer:
            params = [("sort", "-state.started_on"), ("pagelen", str(PER_PAGE))]

            def is_older(deployment: BitbucketDeployment) -> bool:
                at = moment(deployment.state.started_on)
                return at is not None and at < window.start

            pages = _pages(session, path, BitbucketPage[BitbucketDeployment])
            records = await read_records(pages, params, most_pages=MOST_PAGES, is_older=is_older)
            # Deployments hold an environment's id alone, so take its name from this list.
            listed = f"/2.0/repositories/{quote(repository)}/environments"
            places = await session.get(
                listed, [("pagelen", "100")], type=BitbucketPage[_Environment]
            )
            names = {environment.uuid: environment.name for environment in places.values}
            runs = [
                _deployment_run(deployment, repository, names, page)
                for deployment in records.values
            ]
            return self._rules.answer(runs, query_of(path, params), page, records.cut)

        return ChangeFeed(f"deployments of {repository}", read)


def _pages(session: LinkedSession, path: str, type: type[Any]) -> Callable[[Params], Any]:
    """Pages that follow one another by an address. Only its query is used."""

    async def read(params: Params) -> RecordPage[Any]:
        answer = await session.get(path, params, type=type)
        following = None
        if answer.next and len(answer.next) <= 4000:
            following = parse_qsl(urlsplit(answer.next).query, max_num_fields=40) or None
        return RecordPage(answer.values, following)

    return read


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
