"""Buildkite: runs of pipelines that deploy, and builds of default branches.

The REST API as buildkite.com/docs/apis/rest-api/builds has it: GET of builds alone. The GraphQL API
is published as a schema, but takes POST and tokens that cannot be limited to reading.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.changes.build_changes import BuildRules, BuildRun, BuildState
from faultline.connectors.shared.changes.change_feeds import (
    ChangeFeed,
    ChangeFeeds,
    FeedAnswer,
    linked_pages,
    moment,
    person,
    query_of,
    read_records,
)
from faultline.connectors.shared.http.linked_pages import LinkedHttp, LinkedSession
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.vendors.buildkite.settings import BuildkiteSettings
from faultline.connectors.vendors.pagerduty.answers import web_link

VENDOR = "buildkite"
LIMITS = Limits(deadline_s=20, max_bytes=16 * 1024 * 1024, requests_per_s=3, concurrency=2)
"""An organization may send 200 requests a minute (buildkite.com/docs/apis/rest-api/limits)."""
PER_PAGE, MOST_PAGES = 100, 3
STATES: dict[str, BuildState] = {
    "passed": "done",
    "blocked": "done",
    "failed": "failed",
    "failing": "failed",
    "running": "running",
}
"""The others were cancelled, skipped, or have not begun. A blocked build has passed until the step
that waits for somebody."""


class _Person(msgspec.Struct):
    name: str = ""
    id: str = ""


class _Pipeline(msgspec.Struct):
    slug: str = ""
    name: str = ""
    default_branch: str | None = None


class BuildkiteBuild(msgspec.Struct):
    """One build of a list."""

    number: int
    state: str = ""
    web_url: str = ""
    message: str | None = None
    commit: str = ""
    branch: str = ""
    creator: _Person | None = None
    started_at: str | None = None
    finished_at: str | None = None
    pipeline: _Pipeline = msgspec.field(default_factory=_Pipeline)


def build(buildkite_settings: BuildkiteSettings, settings: SharedSettings) -> Buildkite | None:
    """The configured connector, or None without a token or an organization."""
    if buildkite_settings.token is None or buildkite_settings.organization is None:
        return None
    headers = {"Authorization": f"Bearer {buildkite_settings.token.get_secret_value()}"}
    http = LinkedHttp(
        VENDOR, buildkite_settings.url, headers=headers, limits=buildkite_settings.limits(LIMITS)
    )
    return Buildkite(http, ServiceNames.of_catalogue(settings.services), buildkite_settings)


class Buildkite(ChangeFeeds):
    """Builds of an organization, or of some of its pipelines."""

    name = VENDOR
    title = "Buildkite"
    needs = "a token with the scope read_builds"

    def __init__(
        self, http: LinkedHttp, names: ServiceNames, buildkite_settings: BuildkiteSettings
    ) -> None:
        super().__init__(http, names, buildkite_settings.environments)
        self._organization = f"/v2/organizations/{buildkite_settings.organization}"
        self._pipelines = buildkite_settings.pipelines
        self._branches = buildkite_settings.branches
        # Runs of other branches are left out below.
        self._rules = BuildRules((), buildkite_settings.deploys, self.counts)

    def feeds(self) -> Sequence[ChangeFeed]:
        """The builds of the organization, or of each pipeline."""
        if not self._pipelines:
            return [self._feed("builds", f"{self._organization}/builds")]
        return [
            self._feed(f"builds of {pipeline}", f"{self._organization}/pipelines/{pipeline}/builds")
            for pipeline in self._pipelines
        ]

    def _feed(self, what: str, path: str) -> ChangeFeed:
        async def read(session: LinkedSession, window: Window) -> FeedAnswer:
            params = [
                ("created_from", f"{window.start:%Y-%m-%dT%H:%M:%SZ}"),
                ("created_to", f"{window.end:%Y-%m-%dT%H:%M:%SZ}"),
                # Jobs are not read, and would be most of the answer.
                ("exclude_jobs", "true"),
                ("per_page", str(PER_PAGE)),
            ]
            pages = linked_pages(session, path, list[BuildkiteBuild])
            records = await read_records(pages, params, most_pages=MOST_PAGES)
            runs = [self._run(buildkite_build) for buildkite_build in records.values]
            return self._rules.answer(runs, query_of(path, params), cut=records.cut)

        return ChangeFeed(what, read)

    def _run(self, buildkite_build: BuildkiteBuild) -> BuildRun | None:
        branches = self._branches or (buildkite_build.pipeline.default_branch or "main",)
        if buildkite_build.branch not in branches:
            return None
        by = buildkite_build.creator
        return BuildRun(
            buildkite_build.pipeline.slug or buildkite_build.pipeline.name,
            str(buildkite_build.number),
            moment(buildkite_build.finished_at) or moment(buildkite_build.started_at),
            STATES.get(buildkite_build.state),
            # HEAD names no revision once the branch has moved on.
            revision="" if buildkite_build.commit == "HEAD" else buildkite_build.commit,
            message=buildkite_build.message or "",
            author=person(by.name, by.id) if by else None,
            link=web_link(buildkite_build.web_url),
            repository=buildkite_build.pipeline.slug,
        )
