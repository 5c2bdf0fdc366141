"""Azure DevOps: runs of pipelines that deploy, builds of the main branches, and deployments of
classic releases to their stages.

REST API 7.1 as its published specification has it (MicrosoftDocs/vsts-rest-api-specs, build and
release): GET of builds and of deployments alone. Lists stand in an object with `count` and `value`,
and go on by a token in a header.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar
from urllib.parse import quote

import msgspec

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.changes.change_feeds import (
    ChangeFeed,
    FeedAnswer,
    PagedList,
    Params,
    moment,
    person,
    with_param,
)
from faultline.connectors.shared.http.linked_pages import LinkedPage, LinkedSession
from faultline.connectors.shared.rows.collection_builder import stamp
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.vendors.ci import AzureDevOpsSettings
from faultline.connectors.vendors.ci.build_changes import BuildFeeds, BuildRun, BuildState

T = TypeVar("T")

VERSION = ("api-version", "7.1")
PER_PAGE, MOST_PAGES = 100, 3
CONTINUED = "x-ms-continuationtoken"
BUILD_STATES: dict[str, BuildState] = {
    "succeeded": "done",
    "partiallySucceeded": "done",
    "failed": "failed",
}
DEPLOYMENT_STATES: dict[str, BuildState] = {**BUILD_STATES, "inProgress": "running"}
"""The others have not begun, or were cancelled."""


class _Identity(msgspec.Struct):
    displayName: str = ""
    id: str = ""


class _Named(msgspec.Struct):
    id: Any = None
    name: str = ""


class AzureBuild(msgspec.Struct):
    """One build."""

    id: int
    buildNumber: str = ""
    status: str = ""
    result: str | None = None
    sourceBranch: str = ""
    sourceVersion: str = ""
    startTime: str | None = None
    finishTime: str | None = None
    definition: _Named = msgspec.field(default_factory=_Named)
    repository: _Named | None = None
    requestedFor: _Identity | None = None
    triggerInfo: dict[str, Any] | None = None


class AzureDeployment(msgspec.Struct):
    """One deployment of a release to a stage."""

    id: int
    deploymentStatus: str = ""
    startedOn: str | None = None
    completedOn: str | None = None
    release: _Named = msgspec.field(default_factory=_Named)
    releaseDefinition: _Named = msgspec.field(default_factory=_Named)
    releaseEnvironment: _Named = msgspec.field(default_factory=_Named)
    requestedFor: _Identity | None = None


class AzureBuilds(msgspec.Struct):
    """GET /{organization}/{project}/_apis/build/builds."""

    value: list[AzureBuild]


class AzureDeployments(msgspec.Struct):
    """GET /{organization}/{project}/_apis/release/deployments."""

    value: list[AzureDeployment]


def _following(page: LinkedPage[T], params: Params) -> Params | None:
    # Each page repeats the first query with the token of the page before.
    token = page.headers.get(CONTINUED, "")[:200]
    return with_param(params, "continuationToken", token) if token else None


BUILDS = PagedList(AzureBuilds, lambda page: page.value, _following, MOST_PAGES)
DEPLOYMENTS = PagedList(AzureDeployments, lambda page: page.value, _following, MOST_PAGES)


class AzureDevOps(BuildFeeds[AzureDevOpsSettings]):
    """Builds and deployments of some projects."""

    name = "azuredevops"
    title = "Azure DevOps"
    needs = "a token with the scopes Build (read) and Release (read)"
    required = ("token", "organization", "projects")
    login: ClassVar = {"Authorization": "Basic {basic}"}
    # Azure DevOps slows down who uses more than 200 times what a person does in five minutes, and
    # says so by `Retry-After` (learn.microsoft.com, "Rate and usage limits").

    def __init__(self, section: AzureDevOpsSettings, names: ServiceNames) -> None:
        super().__init__(section, names)
        # Another server holds the releases.
        self._releases = self._server(section.releases_url)

    def feeds(self) -> Sequence[ChangeFeed]:
        """Builds, and deployments of releases, of each project."""
        feeds = []
        for project in self._section.projects:
            feeds.append(ChangeFeed(f"builds of {project}", partial(self._builds, project)))
            if self._section.releases:
                read = partial(self._deployments, project)
                feeds.append(ChangeFeed(f"releases of {project}", read))
        return feeds

    async def _builds(self, project: str, session: LinkedSession, window: Window) -> FeedAnswer:
        place = f"/{self._section.organization}/{quote(project)}"
        params = [
            VERSION,
            ("queryOrder", "startTimeDescending"),
            ("minTime", stamp(window.start)),
            ("maxTime", stamp(window.end)),
            ("$top", str(PER_PAGE)),
        ]
        builds = await BUILDS.read(session, f"{place}/_apis/build/builds", params, window)
        page = f"{self._http.base_url}{place}/_build"
        runs = [_build_run(azure_build, page) for azure_build in builds.values]
        return self._rules.answer(runs, builds.query, page, builds.cut)

    async def _deployments(self, project: str, _: LinkedSession, window: Window) -> FeedAnswer:
        place = f"/{self._section.organization}/{quote(project)}"
        path = f"{place}/_apis/release/deployments"
        params = [
            VERSION,
            ("queryOrder", "descending"),
            ("minStartedTime", stamp(window.start)),
            ("maxStartedTime", stamp(window.end)),
            ("$top", str(PER_PAGE)),
        ]
        async with self._releases.open() as session:
            deployments = await DEPLOYMENTS.read(session, path, params, window)
        page = f"{self._http.base_url}{place}/_releaseProgress"
        runs = [_deployment_run(deployment, page) for deployment in deployments.values]
        link = f"{self._http.base_url}{place}/_release"
        return self._rules.answer(runs, deployments.query, link, deployments.cut)


def _build_run(azure_build: AzureBuild, page: str) -> BuildRun:
    state = BUILD_STATES.get(azure_build.result or "")
    # A build in progress has no result yet.
    if azure_build.status == "inProgress":
        state = "running"
    message = (azure_build.triggerInfo or {}).get("ci.message", "")
    repository = azure_build.repository.name if azure_build.repository else ""
    return BuildRun(
        azure_build.definition.name,
        azure_build.buildNumber or str(azure_build.id),
        moment(azure_build.finishTime) or moment(azure_build.startTime),
        state,
        branch=azure_build.sourceBranch.removeprefix("refs/heads/"),
        revision=azure_build.sourceVersion,
        message=message if isinstance(message, str) else "",
        author=_author(azure_build.requestedFor),
        link=f"{page}/results?buildId={azure_build.id}",
        repository=repository,
    )


def _deployment_run(deployment: AzureDeployment, page: str) -> BuildRun:
    number = deployment.release.id if isinstance(deployment.release.id, int) else 0
    return BuildRun(
        deployment.releaseDefinition.name,
        deployment.release.name or str(number),
        moment(deployment.completedOn)
        if deployment.deploymentStatus != "inProgress"
        else moment(deployment.startedOn),
        DEPLOYMENT_STATES.get(deployment.deploymentStatus),
        environment=deployment.releaseEnvironment.name or "a stage",
        author=_author(deployment.requestedFor),
        link=f"{page}?_a=release-pipeline-progress&releaseId={number}",
    )


def _author(by: _Identity | None) -> str | None:
    return person(by.displayName, by.id) if by else None
