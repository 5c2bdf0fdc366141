"""Buildkite: runs of pipelines that deploy, and builds of default branches.

The REST API as buildkite.com/docs/apis/rest-api/builds has it: GET of builds alone. The GraphQL API
is published as a schema, but takes POST and tokens that cannot be limited to reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import msgspec

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.changes.change_feeds import (
    USUAL_LIMITS,
    ChangeFeed,
    FeedAnswer,
    PagedList,
    moment,
    person,
)
from faultline.connectors.shared.http.linked_pages import LinkedSession, next_params
from faultline.connectors.shared.rows.collection_builder import stamp
from faultline.connectors.shared.vendor_text import web_link
from faultline.connectors.vendors.ci import BuildkiteSettings
from faultline.connectors.vendors.ci.build_changes import BuildFeeds, BuildRun, BuildState

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


BUILDS = PagedList(
    list[BuildkiteBuild], list, lambda page, _: next_params(page.headers), MOST_PAGES
)


class Buildkite(BuildFeeds[BuildkiteSettings]):
    """Builds of an organization, or of some of its pipelines."""

    name = "buildkite"
    title = "Buildkite"
    needs = "a token with the scope read_builds"
    required = ("token", "organization")
    usual_limits = replace(USUAL_LIMITS, requests_per_s=3)
    """An organization may send 200 requests a minute (buildkite.com/docs/apis/rest-api/limits)."""

    def feeds(self) -> Sequence[ChangeFeed]:
        """The builds of the organization, or of each pipeline."""
        organization = f"/v2/organizations/{self._section.organization}"
        if not self._section.pipelines:
            return [ChangeFeed("builds", partial(self._read, f"{organization}/builds"))]
        return [
            ChangeFeed(
                f"builds of {pipeline}",
                partial(self._read, f"{organization}/pipelines/{pipeline}/builds"),
            )
            for pipeline in self._section.pipelines
        ]

    async def _read(self, path: str, session: LinkedSession, window: Window) -> FeedAnswer:
        params = [
            ("created_from", stamp(window.start)),
            ("created_to", stamp(window.end)),
            # Jobs are not read, and would be most of the answer.
            ("exclude_jobs", "true"),
            ("per_page", str(PER_PAGE)),
        ]
        builds = await BUILDS.read(session, path, params, window)
        runs = [self._run(buildkite_build) for buildkite_build in builds.values]
        return self._rules.answer(runs, builds.query, cut=builds.cut)

    def _run(self, buildkite_build: BuildkiteBuild) -> BuildRun | None:
        branches = self._section.branches or (buildkite_build.pipeline.default_branch or "main",)
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
