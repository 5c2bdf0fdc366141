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
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any
from urllib.parse import quote

import polars as pl

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import EvidenceKind, Window
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.http.graphql import GraphQLReads, GraphQLSession
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.training import training_runs
from faultline.connectors.shared.training.training_runs import STEP_KEY, TIME_KEY
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.wandb import WandbSettings
from faultline.connectors.vendors.wandb import runs as wandb_runs
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
    page_address,
    place_of,
)
from faultline.connectors.vendors.wandb.runs import WandbRun

VENDOR = "wandb"
API = "https://api.wandb.ai"
LIMITS = Limits(deadline_s=40, max_bytes=96 * 1024 * 1024, requests_per_s=4, concurrency=3)
RUN_LABELS = ("wandb_run", "wandb_run_id", "run_id", "run_name")
"""An alert's labels that name its run, by id or by the name that people gave it."""
RUNS_LISTED = 50
MOST_RUNS = 8
"""Runs of one launch (one per rank or node) whose system metrics are brought."""
SAMPLES, MOST_RANGES, MAP_SAMPLES, MOST_KEYS, SPECS = 1000, 8, 500, 16, 32
"""Of a metric up to 8 ranges of steps with up to 1,000 samples each; 32 of them in one request."""
EVENTS = 2000
"""Samples of the system metrics over the whole run; wandb takes one every 15 s."""
MOST_NAME = 256


def build(wandb_settings: WandbSettings, settings: SharedSettings) -> WandbConnector | None:
    """The configured connector, or None without a project."""
    if wandb_settings.project is None and not wandb_settings.projects:
        return None
    key = wandb_settings.api_key.get_secret_value() if wandb_settings.api_key else None
    return WandbConnector(
        wandb_settings.entity,
        wandb_settings.project,
        wandb_settings.projects,
        base_url=wandb_settings.base_url,
        app_url=wandb_settings.app_url,
        api_key=key,
        limits=wandb_settings.limits(LIMITS),
    )


class WandbConnector:
    """Asks nothing for alerts without a training job or run."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("metrics", "monitors", "changes")

    def __init__(
        self,
        entity: str | None,
        project: str | None,
        projects: Mapping[str, str] | None = None,
        *,
        base_url: str = API,
        app_url: str | None = None,
        api_key: str | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        # The key is the password of a user called `api`.
        token = base64.b64encode(f"api:{api_key}".encode()).decode() if api_key else None
        headers = {"Authorization": f"Basic {token}"} if token else {}
        self._graphql = GraphQLReads(
            VENDOR, base_url, "/graphql", QUERIES, headers=headers, limits=limits
        )
        self._app_url = (app_url or page_address(self._graphql.base_url)).rstrip("/")
        self._projects = {job: place_of(entity, text) for job, text in (projects or {}).items()}
        self._project = place_of(entity, project) if project else None
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """The run that the alert is about; what cannot be collected of it is a gap, the rest
        stands."""
        named = _run_names(request)
        job = request.scope.job
        if not named and job is None:
            return Collected()
        place = self._projects.get(job or "", self._project)
        if place is None:
            reason = "no wandb project is set for this job"
            return Collected(missing=(Missing("metrics", short(job or "", 60), reason),))
        async with self._graphql.open() as session:
            wandb_question = _WandbQuestion(session, place, request, self._app_url)
            await wandb_question.find(named, job)
            if wandb_question.run is None:
                names = [*named, job] if job else named
                sought = " or ".join(short(name, 60) for name in names)
                gap = Missing("metrics", str(place), f"no run there is called {sought}")
                return Collected(missing=(gap,))
            await asyncio.gather(
                wandb_question.history(),
                *(wandb_question.system(run) for run in wandb_question.launch),
                wandb_question.changes(),
            )
        return wandb_question.collected()

    async def check(self) -> Check:
        """Can each configured project be read?"""
        every = [*self._projects.values()]
        if self._project:
            every.insert(0, self._project)
        readable: list[str] = []
        unseen: list[str] = []
        try:
            async with self._graphql.open() as session:
                for place in dict.fromkeys(every):
                    variables = place.variables | {"count": 1}
                    answer = await session.ask(RUNS, variables, type=RunAnswer)
                    # wandb answers null for a project that is not there or not to be seen.
                    (unseen if answer.project is None else readable).append(str(place))
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        if unseen:
            line = f"{', '.join(unseen)}: no such project, or the key may not see it"
            return Check(self.name, False, line)
        projects = ", ".join(readable)
        line = f"wandb at {self._graphql.base_url}: {projects} can be read; only queries are sent"
        return Check(self.name, True, line)


class _WandbQuestion:
    """One collection: the run, and what it brought."""

    def __init__(
        self, session: GraphQLSession, place: WandbProject, request: Request, app_url: str
    ) -> None:
        self._session = session
        self._place = place
        self._request = request
        self._app_url = app_url
        self._alike: list[WandbRun] = []
        self._tables: dict[str, list[pl.DataFrame]] = {"metrics": [], "changes": []}
        self._items: list[Item] = []
        self._missing: list[Missing] = []
        self.run: WandbRun | None = None
        scope = request.scope
        self._windows = (*scope.baseline, scope.incident)
        self._span = Window(start=min(w.start for w in self._windows), end=scope.incident.end)

    @property
    def launch(self) -> list[WandbRun]:
        """The run, and those that were launched with it."""
        run = self._run
        peers = []
        for other in self._alike:
            in_group = other.group and other.group == run.group
            if in_group and other.name != run.name and other.launched_with(run):
                peers.append(other)
        return [run, *peers[: MOST_RUNS - 1]]

    @property
    def shown_runs(self) -> list[WandbRun]:
        """The launch, and earlier runs that were last heard of in the windows: a job that crashed
        and was restarted."""
        launch = self.launch
        earlier = []
        for run in self._alike:
            if run.heartbeat is not None and run not in launch and run.ran_before(self._run):
                earlier.append((run.heartbeat, run))
        earlier_runs = [run for at, run in earlier[:MOST_RUNS] if self._span.start <= at]
        return [*launch, *earlier_runs]

    @property
    def _run(self) -> WandbRun:
        assert self.run is not None
        return self.run

    @property
    def _job(self) -> str:
        return self._request.scope.job or self._run.label

    async def find(self, named: Sequence[str], job: str | None) -> None:
        """By the id or name that the alert gives, else the job's newest run that had begun when the
        incident ended."""
        for name in named:
            self.run = await self._by_id(name) or await self._newest(name)
            if self.run is not None:
                break
        if self.run is None and job is not None:
            self.run = await self._newest(job)
            if self.run is not None and named:
                phrase = (
                    f"no run is called {short(named[0], 60)}; the newest "
                    f"of {short(job, 60)} is shown instead"
                )
                self._missing.append(Missing("metrics", str(self._place), phrase))
        # Found by its id: the runs to compare it with are not listed yet.
        if self.run is not None and not self._alike:
            name = self.run.group or self.run.displayName or self.run.name
            self._alike = await self._listed(name)

    async def _by_id(self, name: str) -> WandbRun | None:
        answer = await self._session.ask(
            RUN, self._place.variables | {"name": name}, type=RunAnswer
        )
        return self._project(answer).run

    async def _newest(self, name: str) -> WandbRun | None:
        self._alike = await self._listed(name)
        for run in self._alike:
            if run.created is not None and run.created <= self._request.scope.incident.end:
                # The list has neither configuration nor keys of metrics: read the run by itself.
                return await self._by_id(run.name)
        return None

    async def _listed(self, name: str) -> list[WandbRun]:
        """Runs of this display name or group, the newest first."""
        filters = json.dumps({"$or": [{"display_name": name}, {"group": name}]})
        variables = self._place.variables | {
            "filters": filters,
            "order": "-created_at",
            "count": RUNS_LISTED,
        }
        answer = await self._session.ask(RUNS, variables, type=RunAnswer)
        runs = self._project(answer).runs
        edges = runs.edges if runs else []
        # `_newest` relies on the order, so do not leave it to the server.
        return sorted((e.node for e in edges), key=lambda r: r.createdAt or "", reverse=True)

    def _project(self, answer: RunAnswer) -> RunData:
        if answer.project is None:
            problem = "no such project, or the key may not see it"
            raise ConnectorError(VENDOR, str(self._place), problem)
        return answer.project

    async def history(self) -> None:
        """Loss, gradient norm, throughput and the like: as series by time, and as the job's own
        metrics by step."""
        query = f"history of {self._place}/{self._run.name}"
        try:
            rows, cut = await self._history_rows()
        except FaultlineError as error:
            self._missing.append(Missing("metrics", query, str(error)))
            return
        table = training_runs.training_rows(rows, self._job, self._windows)
        if not table.height:
            reason = "the run logged nothing in these windows under names that are known"
            self._missing.append(Missing("metrics", query, reason))
        else:
            self._tables["metrics"].append(table)
            link = self._link(self._run)
            item = Item("metrics", query, self._span, link, rows=table.height, cut=cut)
            self._items.append(item.holding(table))
        # Also where no row lies in the windows: by step the history may still tell.
        if rows:
            await self._write_history(query, rows, cut)

    async def _write_history(
        self, query: str, rows: Sequence[Mapping[str, float]], cut: str | None
    ) -> None:
        """The history as a file, for the analyses that go by step and not by time."""
        # It becomes the name of a file: keep nothing that could lead elsewhere.
        run_id = re.sub(r"[^A-Za-z0-9_-]", "_", self._run.name)[:64]
        name = f"wandb-{run_id}.history.jsonl"
        lines = training_runs.history_lines(rows)
        try:
            await asyncio.to_thread((self._request.files / name).write_bytes, lines)
        except OSError as error:
            reason = f"cannot be written ({error.strerror})"
            self._missing.append(Missing("traces", query, reason))
            return
        item = Item(
            "traces",
            query,
            link=self._link(self._run),
            file=name,
            rows=len(rows),
            bytes=len(lines),
            cut=cut,
        )
        self._items.append(item)

    async def _history_rows(self) -> tuple[list[dict[str, float]], str | None]:
        keys = wandb_runs.history_keys(self._run)[:MOST_KEYS]
        last = wandb_runs.last_step(self._run)
        if not keys or last < 0:
            return [], None
        # wandb samples by step, the windows are times: a coarse sample tells which steps they are.
        overview = await self._sampled([{"keys": [STEP_KEY, TIME_KEY], "samples": MAP_SAMPLES}])
        steps = training_runs.rows_by_step(overview)
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
        parts = await asyncio.gather(*(self._sampled(part) for part in _chunks(specs)))
        cut = f"wandb samples {SAMPLES:,} of every {length:,} steps" if length > SAMPLES else None
        return training_runs.rows_by_step(chain.from_iterable(parts)), cut

    def _steps(self, rows: Sequence[Mapping[str, float]], last: int) -> tuple[int, int]:
        """The steps [first, end) that cover the windows, from samples of when which step was."""
        begin, until = self._span.start.timestamp(), self._span.end.timestamp()
        before = [int(row[STEP_KEY]) for row in rows if row.get(TIME_KEY, until) < begin]
        after = [int(row[STEP_KEY]) for row in rows if row.get(TIME_KEY, begin) > until]
        first = min(max(before, default=0), last)
        return first, max(first, min(after, default=last)) + 1

    async def _sampled(self, specs: Sequence[Mapping[str, Any]]) -> list[Any]:
        texts = [json.dumps(spec) for spec in specs]
        variables = self._place.variables | {"name": self._run.name, "specs": texts}
        answer = await self._session.ask(HISTORY, variables, type=RowsAnswer)
        run = answer.project.run if answer.project else None
        return (run.sampledHistory if run else None) or []

    async def system(self, run: WandbRun) -> None:
        """GPU, CPU and memory of the hosts of one run."""
        query = f"system metrics of {self._place}/{run.name}"
        try:
            variables = self._place.variables | {"name": run.name, "samples": EVENTS}
            answer = await self._session.ask(SYSTEM, variables, type=RowsAnswer)
        except FaultlineError as error:
            self._missing.append(Missing("metrics", query, str(error)))
            return
        answered = answer.project.run if answer.project else None
        lines = (answered.events if answered else None) or []
        rows = wandb_runs.event_rows(lines)
        table = training_runs.system_rows(rows, self._job, run.label, self._windows)
        if not table.height:
            self._missing.append(Missing("metrics", query, "no samples in these windows"))
            return
        self._tables["metrics"].append(table)
        cut = f"wandb samples {EVENTS:,} moments of the whole run" if len(lines) >= EVENTS else None
        item = Item("metrics", query, self._span, self._link(run), rows=table.height, cut=cut)
        self._items.append(item.holding(table))

    async def changes(self) -> None:
        """What this run does otherwise than the last one before it that was not launched with
        it."""
        before = self._run_before()
        if before is None:
            return
        query = f"configuration of {self._place}/{self._run.name} against {short(before.name, 60)}"
        try:
            whole = await self._by_id(before.name)
        except FaultlineError as error:
            self._missing.append(Missing("changes", query, str(error)))
            return
        if whole is None:
            self._missing.append(Missing("changes", query, "the run before it cannot be read"))
            return
        table = training_runs.changes_table(whole, self._run, self._job, self._link(self._run))
        self._tables["changes"].append(table)
        item = Item("changes", query, link=self._link(self._run), rows=table.height)
        self._items.append(item.holding(table))

    def _run_before(self) -> WandbRun | None:
        """The last one before it of the same name, else of the same group."""
        earlier = [run for run in self._alike if run.ran_before(self._run)]
        for run in earlier:
            if run.displayName == self._run.displayName:
                return run
        return earlier[0] if earlier else None

    def collected(self) -> Collected:
        """Everything that came."""
        tables = {name: pl.concat(parts) for name, parts in self._tables.items() if parts}
        links = {run.name: self._link(run) for run in self.shown_runs}
        tables["monitors"] = training_runs.states_table(
            self.shown_runs, self._job, self._span.end, links
        )
        return Collected(tables, (*self._items, *self._state_items()), tuple(self._missing))

    def _state_items(self) -> Iterator[Item]:
        for run in self.shown_runs:
            details = {
                "state": run.state_at(self._span.end),
                "started": run.createdAt or "?",
                "last heartbeat": run.heartbeatAt or "?",
            }
            if run.commit:
                details["commit"] = short(run.commit, 60)
            query = f"state of {self._place}/{run.name}"
            yield Item("monitors", query, link=self._link(run), rows=1, details=details)

    def _link(self, run: WandbRun) -> str:
        parts = (self._place.entity, self._place.project, "runs", run.name)
        path = "/".join(quote(part, safe="") for part in parts)
        return f"{self._app_url}/{path}"


def _run_names(request: Request) -> list[str]:
    """What the alert says of its run."""
    labels, training = request.alert.labels, request.scope.training
    names = [labels.get(name, "").strip() for name in RUN_LABELS]
    if training and training.run:
        names.append(training.run)
    return [name for name in dict.fromkeys(names) if name and len(name) <= MOST_NAME]


def _chunks(specs: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    for at in range(0, len(specs), SPECS):
        yield specs[at : at + SPECS]
