"""CircleCI: workflows that deploy, and workflows of the main branches.

API v2 as circleci.com/docs/api/v2 has it: GET of a project's pipelines, and of the workflows of
each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
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
from faultline.connectors.vendors.circleci.settings import CircleCISettings

VENDOR = "circleci"
LIMITS = Limits(deadline_s=30, max_bytes=16 * 1024 * 1024, requests_per_s=5, concurrency=4)
"""CircleCI limits each call by itself and says so by 429 with `Retry-After` (circleci.com/docs,
"API v2 introduction", "Rate limits")."""
MOST_PAGES, MOST_PIPELINES = 3, 30
STATES: dict[str, BuildState] = {
    "success": "done",
    "failed": "failed",
    "error": "failed",
    "failing": "failed",
    "running": "running",
    "on_hold": "running",
}
"""The others did not run, or were cancelled."""


class _Actor(msgspec.Struct):
    login: str | None = None


class _Trigger(msgspec.Struct):
    actor: _Actor = msgspec.field(default_factory=_Actor)


class _Commit(msgspec.Struct):
    subject: str | None = None


class _Vcs(msgspec.Struct):
    revision: str = ""
    branch: str | None = None
    tag: str | None = None
    commit: _Commit | None = None


class CirclePipeline(msgspec.Struct):
    """One pipeline of a project."""

    id: str
    number: int
    created_at: str
    trigger: _Trigger = msgspec.field(default_factory=_Trigger)
    vcs: _Vcs | None = None


class CirclePipelines(msgspec.Struct):
    """GET /api/v2/project/{slug}/pipeline."""

    items: list[CirclePipeline]
    next_page_token: str | None = None


class CircleWorkflow(msgspec.Struct):
    """One workflow of a pipeline."""

    id: str
    name: str
    status: str
    created_at: str
    stopped_at: str | None = None


class CircleWorkflows(msgspec.Struct):
    """GET /api/v2/pipeline/{id}/workflow."""

    items: list[CircleWorkflow]


def build(circleci_settings: CircleCISettings, settings: SharedSettings) -> CircleCI | None:
    """The configured connector, or None without a token or a project."""
    if circleci_settings.token is None or not circleci_settings.projects:
        return None
    headers = {"Circle-Token": circleci_settings.token.get_secret_value()}
    http = LinkedHttp(
        VENDOR, circleci_settings.url, headers=headers, limits=circleci_settings.limits(LIMITS)
    )
    return CircleCI(http, ServiceNames.of_catalogue(settings.services), circleci_settings)


class CircleCI(ChangeFeeds):
    """Workflows of some projects."""

    name = VENDOR
    title = "CircleCI"
    needs = "a token of a user that may view the project"

    def __init__(
        self, http: LinkedHttp, names: ServiceNames, circleci_settings: CircleCISettings
    ) -> None:
        super().__init__(http, names, circleci_settings.environments)
        self._projects = circleci_settings.projects
        self._branches = circleci_settings.branches
        self._app_url = circleci_settings.app_url
        self._rules = BuildRules(circleci_settings.branches, circleci_settings.deploys, self.counts)

    def feeds(self) -> Sequence[ChangeFeed]:
        """The workflows of each project."""
        return [self._feed(project) for project in self._projects]

    def _feed(self, project: str) -> ChangeFeed:
        path = f"/api/v2/project/{quote(project)}/pipeline"

        async def read(session: LinkedSession, window: Window) -> FeedAnswer:
            async def read_page(params: Params) -> RecordPage[CirclePipeline]:
                answer = await session.get(path, params, type=CirclePipelines)
                token = answer.next_page_token
                return RecordPage(answer.items, [("page-token", token)] if token else None)

            # The list takes no times, so read on until a pipeline is too old.
            def is_older(pipeline: CirclePipeline) -> bool:
                at = moment(pipeline.created_at)
                return at is not None and at < window.start

            records = await read_records(read_page, [], most_pages=MOST_PAGES, is_older=is_older)
            inside = [
                pipeline
                for pipeline in records.values
                if not is_older(pipeline) and self._counts(pipeline)
            ]
            cut = records.cut
            # The workflows of each pipeline take another call.
            if len(inside) > MOST_PIPELINES:
                cut = f"only the latest {MOST_PIPELINES} of {len(inside)} pipelines were read"
            runs = await asyncio.gather(
                *(self._runs(session, project, pipeline) for pipeline in inside[:MOST_PIPELINES])
            )
            every = [run for pipeline_runs in runs for run in pipeline_runs]
            page = f"{self._app_url}/pipelines/{quote(project)}"
            return self._rules.answer(every, query_of(path, []), page, cut)

        return ChangeFeed(f"workflows of {project}", read)

    def _counts(self, pipeline: CirclePipeline) -> bool:
        """Whether it is of a main branch or of a tag."""
        vcs = pipeline.vcs
        return vcs is not None and (bool(vcs.tag) or vcs.branch in self._branches)

    async def _runs(
        self, session: LinkedSession, project: str, pipeline: CirclePipeline
    ) -> list[BuildRun]:
        path = f"/api/v2/pipeline/{quote(pipeline.id, safe='')}/workflow"
        response = await session.get(path, type=CircleWorkflows)
        vcs = pipeline.vcs or _Vcs()
        page = f"{self._app_url}/pipelines/{quote(project)}/{pipeline.number}/workflows"
        runs = []
        for workflow in response.items:
            run = BuildRun(
                workflow.name,
                str(pipeline.number),
                # A workflow that still runs has no end, so take when it began.
                moment(workflow.stopped_at) or moment(workflow.created_at),
                STATES.get(workflow.status),
                branch=vcs.branch or "",
                revision=vcs.revision,
                message=(vcs.commit and vcs.commit.subject) or "",
                author=person(pipeline.trigger.actor.login),
                link=f"{page}/{quote(workflow.id, safe='')}",
                repository=project,
            )
            runs.append(run)
        return runs
