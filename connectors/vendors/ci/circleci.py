"""CircleCI: workflows that deploy, and workflows of the main branches.

API v2 as circleci.com/docs/api/v2 has it: GET of a project's pipelines, and of the workflows of
each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar
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
from faultline.connectors.shared.http.linked_pages import LinkedPage, LinkedSession
from faultline.connectors.vendors.ci import CircleCISettings
from faultline.connectors.vendors.ci.build_changes import BuildFeeds, BuildRun, BuildState

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


def _following(page: LinkedPage[CirclePipelines], _: Params) -> Params | None:
    token = page.value.next_page_token
    return [("page-token", token)] if token else None


# The list takes no times, so read on until a pipeline is too old.
PIPELINES = PagedList(
    CirclePipelines,
    lambda page: page.items,
    _following,
    MOST_PAGES,
    lambda pipeline: moment(pipeline.created_at),
)


class CircleCI(BuildFeeds[CircleCISettings]):
    """Workflows of some projects."""

    name = "circleci"
    title = "CircleCI"
    needs = "a token of a user that may view the project"
    required = ("token", "projects")
    login: ClassVar = {"Circle-Token": "{token}"}
    usual_limits = replace(USUAL_LIMITS, deadline_s=30, concurrency=4)
    """CircleCI limits each call by itself and says so by 429 with `Retry-After` (circleci.com/docs,
    "API v2 introduction", "Rate limits")."""

    def feeds(self) -> Sequence[ChangeFeed]:
        """The workflows of each project."""
        return [
            ChangeFeed(f"workflows of {project}", partial(self._read, project))
            for project in self._section.projects
        ]

    async def _read(self, project: str, session: LinkedSession, window: Window) -> FeedAnswer:
        path = f"/api/v2/project/{quote(project)}/pipeline"
        pipelines = await PIPELINES.read(session, path, [], window)
        inside = []
        for pipeline in pipelines.values:
            at = moment(pipeline.created_at)
            if (at is None or at >= window.start) and self._counts(pipeline):
                inside.append(pipeline)
        cut = pipelines.cut
        # The workflows of each pipeline take another call.
        if len(inside) > MOST_PIPELINES:
            cut = f"only the latest {MOST_PIPELINES} of {len(inside)} pipelines were read"
        runs = await asyncio.gather(
            *(self._runs(session, project, pipeline) for pipeline in inside[:MOST_PIPELINES])
        )
        every = [run for pipeline_runs in runs for run in pipeline_runs]
        page = f"{self._section.app_url}/pipelines/{quote(project)}"
        return self._rules.answer(every, pipelines.query, page, cut)

    def _counts(self, pipeline: CirclePipeline) -> bool:
        """Whether it is of a main branch or of a tag."""
        vcs = pipeline.vcs
        return vcs is not None and (bool(vcs.tag) or vcs.branch in self._section.branches)

    async def _runs(
        self, session: LinkedSession, project: str, pipeline: CirclePipeline
    ) -> list[BuildRun]:
        path = f"/api/v2/pipeline/{quote(pipeline.id, safe='')}/workflow"
        response = await session.get(path, type=CircleWorkflows)
        vcs = pipeline.vcs or _Vcs()
        page = f"{self._section.app_url}/pipelines/{quote(project)}/{pipeline.number}/workflows"
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
