"""Azure DevOps: runs of pipelines that deploy, builds of the main branches, and deployments of
classic releases to their stages.

REST API 7.1 as its published specification has it (MicrosoftDocs/vsts-rest-api-specs, build and
release): GET of builds and of deployments alone. Lists stand in an object with `count` and `value`,
and go on by a token in a header.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

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
from faultline.connectors.vendors.azuredevops.settings import AzureDevOpsSettings

T = TypeVar("T")

VENDOR = "azuredevops"
LIMITS = Limits(deadline_s=20, max_bytes=16 * 1024 * 1024, requests_per_s=5, concurrency=2)
"""Azure DevOps slows down who uses more than 200 times what a person does in five minutes, and says
so by `Retry-After` (learn.microsoft.com, "Rate and usage limits")."""
VERSION = ("api-version", "7.1")
PER_PAGE, MOST_PAGES = 100, 3
CONTINUED = "x-ms-continuationtoken"
BUILDS: dict[str, BuildState] = {
    "succeeded": "done",
    "partiallySucceeded": "done",
    "failed": "failed",
}
DEPLOYMENTS: dict[str, BuildState] = {**BUILDS, "inProgress": "running"}
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


def build(devops_settings: AzureDevOpsSettings, settings: SharedSettings) -> AzureDevOps | None:
    """The configured connector, or None without a token, an organization or a project."""
    if (
        devops_settings.token is None
        or devops_settings.organization is None
        or not devops_settings.projects
    ):
        return None
    # A personal access token is the password of an empty user name (Basic authentication).
    secret = base64.b64encode(f":{devops_settings.token.get_secret_value()}".encode()).decode()
    headers = {"Authorization": f"Basic {secret}"}
    limits = devops_settings.limits(LIMITS)
    http = LinkedHttp(VENDOR, devops_settings.url, headers=headers, limits=limits)
    releases = None
    if devops_settings.releases:
        releases = LinkedHttp(VENDOR, devops_settings.releases_url, headers=headers, limits=limits)
    names = ServiceNames.of_catalogue(settings.services)
    return AzureDevOps(http, releases, names, devops_settings)


class AzureDevOps(ChangeFeeds):
    """Builds and deployments of some projects."""

    name = VENDOR
    title = "Azure DevOps"
    needs = "a token with the scopes Build (read) and Release (read)"

    def __init__(
        self,
        http: LinkedHttp,
        releases: LinkedHttp | None,
        names: ServiceNames,
        devops_settings: AzureDevOpsSettings,
    ) -> None:
        super().__init__(http, names, devops_settings.environments)
        self._releases = releases
        self._organization = devops_settings.organization or ""
        self._projects = devops_settings.projects
        self._rules = BuildRules(devops_settings.branches, devops_settings.deploys, self.counts)

    def feeds(self) -> Sequence[ChangeFeed]:
        """Builds, and deployments of releases, of each project."""
        feeds = []
        for project in self._projects:
            feeds.append(self._builds(project))
            if self._releases is not None:
                feeds.append(self._deployments(project, self._releases))
        return feeds

    def _builds(self, project: str) -> ChangeFeed:
        place = f"/{self._organization}/{quote(project)}"
        path = f"{place}/_apis/build/builds"

        async def read(session: LinkedSession, window: Window) -> FeedAnswer:
            params = [
                VERSION,
                ("queryOrder", "startTimeDescending"),
                ("minTime", _stamp(window.start)),
                ("maxTime", _stamp(window.end)),
                ("$top", str(PER_PAGE)),
            ]
            pages = _pages(session, path, params, AzureBuilds, lambda answer: answer.value)
            records = await read_records(pages, params, most_pages=MOST_PAGES)
            page = f"{self._http.base_url}{place}/_build"
            runs = [_build_run(azure_build, page) for azure_build in records.values]
            return self._rules.answer(runs, query_of(path, params), page, records.cut)

        return ChangeFeed(f"builds of {project}", read)

    def _deployments(self, project: str, http: LinkedHttp) -> ChangeFeed:
        place = f"/{self._organization}/{quote(project)}"
        path = f"{place}/_apis/release/deployments"

        async def read(_: LinkedSession, window: Window) -> FeedAnswer:
            params = [
                VERSION,
                ("queryOrder", "descending"),
                ("minStartedTime", _stamp(window.start)),
                ("maxStartedTime", _stamp(window.end)),
                ("$top", str(PER_PAGE)),
            ]
            # Another server holds the releases.
            async with http.open() as session:
                pages = _pages(session, path, params, AzureDeployments, lambda answer: answer.value)
                records = await read_records(pages, params, most_pages=MOST_PAGES)
            page = f"{self._http.base_url}{place}/_releaseProgress"
            runs = [_deployment_run(deployment, page) for deployment in records.values]
            link = f"{self._http.base_url}{place}/_release"
            return self._rules.answer(runs, query_of(path, params), link, records.cut)

        return ChangeFeed(f"releases of {project}", read)


def _pages(
    session: LinkedSession,
    path: str,
    params: Params,
    type: type[Any],
    values: Callable[[Any], Sequence[T]],
) -> Callable[[Params], Any]:
    async def read(page_params: Params) -> RecordPage[T]:
        page = await session.page(path, page_params, type=type)
        token = page.headers.get(CONTINUED, "")[:200]
        # Each page repeats the first query with the token of the page before.
        following = [*params, ("continuationToken", token)] if token else None
        return RecordPage(values(page.value), following)

    return read


def _build_run(azure_build: AzureBuild, page: str) -> BuildRun:
    state = BUILDS.get(azure_build.result or "")
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
        DEPLOYMENTS.get(deployment.deploymentStatus),
        environment=deployment.releaseEnvironment.name or "a stage",
        author=_author(deployment.requestedFor),
        link=f"{page}?_a=release-pipeline-progress&releaseId={number}",
    )


def _author(by: _Identity | None) -> str | None:
    return person(by.displayName, by.id) if by else None


def _stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
