"""Weights & Biases: a training run's metrics, system metrics, state, and what it does otherwise
than the run before it.

The public API is GraphQL over POST; only the queries of
`faultline.connectors.vendors.wandb.queries` can be sent.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any
from urllib.parse import quote

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.contract.base import Request
from faultline.connectors.shared.http.graphql import GraphQLReads, GraphQLSession
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.training.run_collection import (
    RUNS_LISTED,
    Rows,
    RunCollection,
    RunConnector,
)
from faultline.connectors.shared.training.training_runs import STEP_KEY, TIME_KEY, rows_by_step
from faultline.connectors.vendors.wandb import WandbSettings
from faultline.connectors.vendors.wandb.queries import (
    HISTORY,
    QUERIES,
    RUN,
    RUNS,
    SYSTEM,
    RowsAnswer,
    RunAnswer,
    RunData,
    WandbProject,
    WandbRun,
    event_rows,
    history_keys,
    last_step,
    page_address,
    place_of,
)

VENDOR = "wandb"
LIMITS = Limits(deadline_s=40, max_bytes=96 * 1024 * 1024, requests_per_s=4, concurrency=3)
RUN_LABELS = ("wandb_run", "wandb_run_id", "run_id", "run_name")
SAMPLES, MOST_RANGES, MAP_SAMPLES, MOST_KEYS, SPECS = 1000, 8, 500, 16, 32
"""Of a metric up to 8 ranges of steps with up to 1,000 samples each; 32 of them in one request."""
EVENTS = 2000
"""Samples of the system metrics over the whole run; wandb takes one every 15 s."""


class WandbConnector(RunConnector[GraphQLSession, WandbProject]):
    """One server."""

    name = VENDOR
    title = VENDOR
    place_word = "project"
    requests_word = "queries"
    no_access = "no such project, or the key may not see it"
    run_labels = RUN_LABELS

    def __init__(self, section: WandbSettings) -> None:
        headers, limits = {}, section.limits(LIMITS)
        if section.api_key is not None:
            # The key is the password of a user called `api`.
            login = f"api:{section.api_key.get_secret_value()}"
            headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        http = GraphQLReads(
            VENDOR, section.base_url, "/graphql", QUERIES, headers=headers, limits=limits
        )
        default = place_of(section.entity, section.project) if section.project else None
        by_job = {job: place_of(section.entity, text) for job, text in section.projects.items()}
        super().__init__(http, default, by_job)
        self._app_url = (section.app_url or page_address(http.base_url)).rstrip("/")

    async def can_read(self, session: GraphQLSession, place: WandbProject) -> bool:
        answer = await session.ask(RUNS, place.variables | {"count": 1}, type=RunAnswer)
        # wandb answers null for a project that is not there or not to be seen.
        return answer.project is not None

    async def collection(
        self, session: GraphQLSession, place: WandbProject, request: Request
    ) -> WandbCollection:
        return WandbCollection(session, place, request, self._app_url)


class WandbCollection(RunCollection[WandbRun]):
    """One collection from a project."""

    vendor = VENDOR
    settings_word = "configuration"
    heartbeat_words = ("last heartbeat", "?")
    no_system = "no samples in these windows"

    def __init__(
        self, session: GraphQLSession, project: WandbProject, request: Request, app_url: str
    ) -> None:
        super().__init__(request, str(project))
        self._session = session
        self._project = project
        self._app_url = app_url

    def label(self, run: WandbRun) -> str:
        return f"{self._project}/{run.name}"

    def link(self, run: WandbRun) -> str:
        parts = (self._project.entity, self._project.project, "runs", run.name)
        return "/".join([self._app_url, *(quote(part, safe="") for part in parts)])

    async def by_id(self, name: str) -> WandbRun | None:
        variables = self._project.variables | {"name": name}
        return self._read(await self._session.ask(RUN, variables, type=RunAnswer)).run

    async def whole(self, run: WandbRun) -> WandbRun | None:
        """The list has neither configuration nor keys of metrics: read the run by itself."""
        return await self.by_id(run.name)

    async def listed(self, name: str) -> list[WandbRun]:
        filters = json.dumps({"$or": [{"display_name": name}, {"group": name}]})
        variables = self._project.variables | {
            "filters": filters,
            "order": "-created_at",
            "count": RUNS_LISTED,
        }
        runs = self._read(await self._session.ask(RUNS, variables, type=RunAnswer)).runs
        edges = runs.edges if runs else []
        # The newest run is taken from the front, so do not leave the order to the server.
        return sorted((e.node for e in edges), key=lambda r: r.createdAt or "", reverse=True)

    def _read(self, answer: RunAnswer) -> RunData:
        if answer.project is None:
            raise ConnectorError(VENDOR, str(self._project), WandbConnector.no_access)
        return answer.project

    async def history_rows(self, run: WandbRun, query: str) -> Rows:
        keys = history_keys(run)[:MOST_KEYS]
        last = last_step(run)
        if not keys or last < 0:
            return [], None
        # wandb samples by step, the windows are times: a coarse sample tells which steps they are.
        overview = await self._sampled(
            run, [{"keys": [STEP_KEY, TIME_KEY], "samples": MAP_SAMPLES}]
        )
        steps = rows_by_step(overview)
        first, end = self._steps(steps, last)
        ranges = min(MOST_RANGES, max(1, math.ceil((end - first) / SAMPLES)))
        length = math.ceil((end - first) / ranges)
        starts = [first + number * length for number in range(ranges)]
        specs: list[dict[str, Any]] = []
        for key in keys:
            for start in starts:
                spec = {
                    "keys": [STEP_KEY, TIME_KEY, key],
                    "minStep": start,
                    "maxStep": min(end, start + length),
                    "samples": SAMPLES,
                }
                specs.append(spec)
        parts = await asyncio.gather(
            *(self._sampled(run, specs[at : at + SPECS]) for at in range(0, len(specs), SPECS))
        )
        cut = f"wandb samples {SAMPLES:,} of every {length:,} steps" if length > SAMPLES else None
        return rows_by_step(chain.from_iterable(parts)), cut

    def _steps(self, rows: Sequence[Mapping[str, float]], last: int) -> tuple[int, int]:
        """The steps [first, end) that cover the windows, from samples of when which step was."""
        begin, until = self.span.start.timestamp(), self.span.end.timestamp()
        before = [int(row[STEP_KEY]) for row in rows if row.get(TIME_KEY, until) < begin]
        after = [int(row[STEP_KEY]) for row in rows if row.get(TIME_KEY, begin) > until]
        first = min(max(before, default=0), last)
        return first, max(first, min(after, default=last)) + 1

    async def _sampled(self, run: WandbRun, specs: Sequence[Mapping[str, Any]]) -> list[Any]:
        variables = self._project.variables | {
            "name": run.name,
            "specs": [json.dumps(spec) for spec in specs],
        }
        answer = await self._session.ask(HISTORY, variables, type=RowsAnswer)
        return answer.rows.sampledHistory or []

    async def system_rows(self, run: WandbRun, query: str) -> Rows:
        variables = self._project.variables | {"name": run.name, "samples": EVENTS}
        answer = await self._session.ask(SYSTEM, variables, type=RowsAnswer)
        lines = answer.rows.events or []
        cut = f"wandb samples {EVENTS:,} moments of the whole run" if len(lines) >= EVENTS else None
        return list(event_rows(lines)), cut


def build(section: WandbSettings, shared: SharedSettings) -> WandbConnector | None:
    """The configured connector, or None without a project."""
    # Every connector is built with the same arguments.
    del shared
    if section.project is None and not section.projects:
        return None
    return WandbConnector(section)
