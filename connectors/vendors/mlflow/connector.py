"""MLflow: a training run's metrics, system metrics, state, and what it does otherwise than the run
before it, by the tracking server's REST API (mlflow.org/docs/latest/rest-api.html).

Tables and their meaning are those of `faultline.connectors.shared.training.training_runs`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import polars as pl

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import EvidenceKind, Window
from faultline.connectors.shared.auth.server_access import ANYONE, ServerAccess, access_of
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.rows.collection_builder import epoch_ms
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.training import training_runs as training
from faultline.connectors.shared.vendor_text import plain_url, short
from faultline.connectors.vendors.mlflow import MlflowSettings
from faultline.connectors.vendors.mlflow.answers import (
    ExperimentAnswer,
    HistoryAnswer,
    MlflowMetric,
    MlflowRun,
    RunAnswer,
    rows_of,
    system_key,
)
from faultline.connectors.vendors.mlflow.session import API, MlflowHttp, MlflowSession

VENDOR = "mlflow"
LIMITS = Limits(deadline_s=40, max_bytes=96 * 1024 * 1024, requests_per_s=8, concurrency=4)
RUN_LABELS = ("mlflow_run", "mlflow_run_id", "run_id", "run_name")
"""An alert's labels that name its run, by id or by the name that people gave it."""
RUNS_LISTED, MOST_KEYS, MOST_SYSTEM_KEYS = 50, 16, 48
PAGE, MOST_PAGES = 25_000, 4
"""Values of one metric in an answer, and answers that are read of it."""
_ID = re.compile(r"[0-9a-f]{32}")
_NAME = re.compile(r"[^'\"\\\x00-\x1f]{1,256}")
"""Names that can stand in a filter."""


def build(mlflow_settings: MlflowSettings, settings: SharedSettings) -> MlflowConnector | None:
    """The configured connector, or None without a URL."""
    # Every connector is built with the same arguments.
    del settings
    if mlflow_settings.url is None:
        return None
    return MlflowConnector(
        mlflow_settings.url,
        access_of(mlflow_settings, VENDOR),
        mlflow_settings=mlflow_settings,
        limits=mlflow_settings.limits(LIMITS),
    )


class MlflowConnector:
    """Asks nothing for alerts without a training job or run."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("metrics", "monitors", "changes")

    def __init__(
        self,
        url: str,
        access: ServerAccess = ANYONE,
        *,
        mlflow_settings: MlflowSettings | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._settings = mlflow_settings or MlflowSettings()
        self._http = MlflowHttp(VENDOR, url, access=access, limits=limits)
        public = self._settings.public_url
        self._page = plain_url(public, VENDOR) if public else self._http.base_url
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """The run that the alert is about; what cannot be collected of it is a gap, the rest
        stands."""
        named, job = _run_names(request), request.scope.job
        if not named and job is None:
            return Collected()
        job_experiment = self._settings.experiments.get(job or "")
        experiment = job_experiment or self._settings.experiment
        if experiment is None:
            reason = "no MLflow experiment is set for this job"
            return Collected(missing=(Missing("metrics", short(job or "", 60), reason),))
        async with self._http.open() as session:
            question = _MlflowQuestion(session, request, self._page)
            await question.find(
                await _experiment(session, experiment), named, job, bool(job_experiment)
            )
            if question.run is None:
                sought = " or ".join(short(name, 60) for name in (*named, *([job] if job else ())))
                gap = Missing("metrics", short(experiment, 60), f"no run there is called {sought}")
                return Collected(missing=(gap,))
            await asyncio.gather(question.history(), question.system())
            question.changes()
        return question.collected()

    async def check(self) -> Check:
        """Can each configured experiment be read?"""
        every = [*([self._settings.experiment] if self._settings.experiment else ())]
        every += self._settings.experiments.values()
        if not every:
            return Check(VENDOR, False, "set mlflow.experiment or mlflow.experiments")
        try:
            async with self._http.open() as session:
                for name in dict.fromkeys(every):
                    await _experiment(session, name)
        except FaultlineError as error:
            return Check(VENDOR, False, str(error))
        names = ", ".join(dict.fromkeys(every))
        line = f"MLflow at {self._http.base_url}: {names} can be read; only searches are sent"
        return Check(VENDOR, True, line)


async def _experiment(session: MlflowSession, name: str) -> str:
    """Its id. Raises ConnectorError."""
    path = f"{API}/experiments/get-by-name"
    try:
        answer = await session.get(path, [("experiment_name", name)], type=ExperimentAnswer)
    except ConnectorError as error:
        if error.status != 404:
            raise
        problem = "no such experiment, or these credentials may not see it"
        raise ConnectorError(VENDOR, short(name, 60), problem) from None
    return answer.experiment.experiment_id


class _MlflowQuestion:
    """One collection: the run, and what it brought."""

    def __init__(self, session: MlflowSession, request: Request, page: str) -> None:
        self._session = session
        self._request = request
        self._page = page
        self._alike: list[MlflowRun] = []
        self._tables: dict[str, list[pl.DataFrame]] = {"metrics": [], "changes": []}
        self._items: list[Item] = []
        self._missing: list[Missing] = []
        self.run: MlflowRun | None = None
        scope = request.scope
        self._windows = (*scope.baseline, scope.incident)
        self._span = Window(start=min(w.start for w in self._windows), end=scope.incident.end)

    @property
    def _run(self) -> MlflowRun:
        assert self.run is not None
        return self.run

    @property
    def _job(self) -> str:
        return self._request.scope.job or self._run.shown.label

    async def find(
        self, experiment: str, named: Sequence[str], job: str | None, is_exclusive: bool
    ) -> None:
        """By the id or name that the alert gives, else the job's newest run that had begun when the
        incident ended. `is_exclusive` says that the experiment is the job's alone."""
        for name in named:
            self.run = await self._by_id(experiment, name) or await self._newest(experiment, name)
            if self.run is not None:
                break
        if self.run is None and job is not None:
            self.run = await self._newest(experiment, "" if is_exclusive else job)
            if self.run is not None and named:
                phrase = (
                    f"no run is called {short(named[0], 60)}; the newest "
                    f"of {short(job, 60)} is shown instead"
                )
                self._missing.append(Missing("metrics", short(job, 60), phrase))
        # Found by its id: the runs to compare it with are not listed yet.
        if self.run is not None and not self._alike:
            self._alike = await self._listed(
                experiment, "" if is_exclusive else self.run.info.run_name
            )

    async def _by_id(self, experiment: str, name: str) -> MlflowRun | None:
        if not _ID.fullmatch(name):
            return None
        try:
            answer = await self._session.get(f"{API}/runs/get", [("run_id", name)], type=RunAnswer)
        except ConnectorError as error:
            if error.status != 404:
                raise
            return None
        # An id finds runs of any experiment. Only the configured one is read.
        return answer.run if answer.run.info.experiment_id == experiment else None

    async def _newest(self, experiment: str, name: str) -> MlflowRun | None:
        self._alike = await self._listed(experiment, name)
        return self._alike[0] if self._alike else None

    async def _listed(self, experiment: str, name: str) -> list[MlflowRun]:
        """Runs of this name, or of any, that had begun when the incident ended, newest first."""
        # The name stands in a filter, where a quote would end it.
        if name and not _NAME.fullmatch(name):
            return []
        # A run that began after the incident cannot be the one that the alert is about.
        filters = [f"attributes.start_time <= {epoch_ms(self._span.end)}"]
        filters += [f"attributes.run_name = '{name}'"] if name else []
        body: dict[str, Any] = {
            "experiment_ids": [experiment],
            "filter": " AND ".join(filters),
            "max_results": RUNS_LISTED,
            "order_by": ["attributes.start_time DESC"],
        }
        return (await self._session.search(body)).runs

    async def history(self) -> None:
        """Loss, gradient norm, throughput and the like: as series by time, and as the job's own
        metrics by step."""
        query = f"history of {short(self._run.info.run_id, 60)}"
        # MLflow keeps the hosts' metrics among the run's, under this prefix.
        every = {
            metric.key for metric in self._run.data.metrics if not metric.key.startswith("system/")
        }
        metrics_by_key = {key: (key, 1.0) for key in training.measure_keys(every)[:MOST_KEYS]}
        rows, cut = await self._rows(query, metrics_by_key)
        by_step = training.rows_by_step([rows])
        table = training.training_rows(by_step, self._job, self._windows)
        if not table.height:
            reason = "the run logged nothing in these windows under names that are known"
            self._missing.append(Missing("metrics", query, reason))
        self._keep(query, table, cut)
        if by_step:
            await self._write(query, by_step, cut)

    async def system(self) -> None:
        """GPU, CPU, memory and disk of the run's hosts."""
        query = f"system metrics of {short(self._run.info.run_id, 60)}"
        metrics_by_key: dict[str, tuple[str, float]] = {}
        for key in sorted(metric.key for metric in self._run.data.metrics):
            if (shared_metric := system_key(key)) is not None and len(
                metrics_by_key
            ) < MOST_SYSTEM_KEYS:
                metrics_by_key[key] = shared_metric
        rows, cut = await self._rows(query, metrics_by_key)
        host = self._run.shown.label
        self._keep(query, training.system_rows(rows, self._job, host, self._windows), cut)

    async def _rows(
        self, query: str, metrics_by_key: Mapping[str, tuple[str, float]]
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Rows of all keys; one that fails is a gap."""
        readings = await asyncio.gather(*(self._values(query, key) for key in metrics_by_key))
        rows: list[dict[str, Any]] = []
        cut = None
        for (name, factor), (values, more) in zip(metrics_by_key.values(), readings, strict=True):
            rows += rows_of(name, values, factor)
            cut = f"the first {PAGE * MOST_PAGES:,} values of a metric" if more else cut
        return rows, cut

    async def _values(self, query: str, key: str) -> tuple[list[MlflowMetric], bool]:
        """The values of a metric, and whether there are more."""
        values: list[MlflowMetric] = []
        token = ""
        for _ in range(MOST_PAGES):
            params = [("run_id", self._run.info.run_id), ("metric_key", key)]
            params += [("max_results", str(PAGE)), *([("page_token", token)] if token else ())]
            try:
                path = f"{API}/metrics/get-history"
                answer = await self._session.get(path, params, type=HistoryAnswer)
            except FaultlineError as error:
                self._missing.append(Missing("metrics", f"{query}: {short(key, 60)}", str(error)))
                # Keep what came: the gap already says that the rest is missing.
                return values, False
            values += answer.metrics
            token = answer.next_page_token or ""
            if not token:
                break
        return values, bool(token)

    def _keep(self, query: str, table: pl.DataFrame, cut: str | None) -> None:
        if table.height:
            self._tables["metrics"].append(table)
            link = self._link(self._run)
            item = Item("metrics", query, self._span, link, rows=table.height, cut=cut)
            self._items.append(item.holding(table))

    async def _write(
        self, query: str, rows: Sequence[Mapping[str, float]], cut: str | None
    ) -> None:
        """The history as a file, for the analyses that go by step and not by time."""
        # It becomes the name of a file: keep nothing that could lead elsewhere.
        run_id = re.sub(r"[^A-Za-z0-9_-]", "_", self._run.info.run_id)[:64]
        name, lines = f"mlflow-{run_id}.history.jsonl", training.history_lines(rows)
        try:
            await asyncio.to_thread((self._request.files / name).write_bytes, lines)
        except OSError as error:
            reason = f"cannot be written ({error.strerror})"
            self._missing.append(Missing("traces", query, reason))
            return
        link, size = self._link(self._run), len(lines)
        self._items.append(
            Item("traces", query, link=link, file=name, rows=len(rows), bytes=size, cut=cut)
        )

    def changes(self) -> None:
        """What this run does otherwise than the last one before it."""
        now = self._run.shown
        before = next((r.shown for r in self._alike if r.shown.ran_before(now)), None)
        if before is None:
            return
        link = self._link(self._run)
        table = training.changes_table(before, now, self._job, link, VENDOR)
        self._tables["changes"].append(table)
        query = f"parameters of {short(now.name, 60)} against {short(before.name, 60)}"
        self._items.append(Item("changes", query, link=link, rows=table.height).holding(table))

    def collected(self) -> Collected:
        """Everything that came; states of the run and of earlier ones that ended in the windows."""
        tables = {name: pl.concat(parts) for name, parts in self._tables.items() if parts}
        runs = [self._run]
        # A restart hides the run that failed, so report earlier ones that ended in the windows.
        for run in self._alike:
            ended = run.shown.heartbeat
            if run.shown.ran_before(self._run.shown) and ended and ended >= self._span.start:
                runs.append(run)
        links = {run.info.run_id: self._link(run) for run in runs}
        shown = [run.shown for run in runs]
        tables["monitors"] = training.states_table(shown, self._job, self._span.end, links)
        for shown_run in shown:
            details = {
                "state": shown_run.state_at(self._span.end),
                "started": shown_run.createdAt or "?",
                "ended": shown_run.heartbeatAt or "not yet",
            }
            query, link = f"state of {short(shown_run.name, 60)}", links[shown_run.name]
            self._items.append(Item("monitors", query, link=link, rows=1, details=details))
        return Collected(tables, tuple(self._items), tuple(self._missing))

    def _link(self, run: MlflowRun) -> str:
        ids = (quote(text, safe="") for text in (run.info.experiment_id, run.info.run_id))
        return "{}/#/experiments/{}/runs/{}".format(self._page, *ids)


def _run_names(request: Request) -> list[str]:
    """What the alert says of its run."""
    labels, job = request.alert.labels, request.scope.training
    names = [labels.get(name, "").strip() for name in RUN_LABELS]
    names += [job.run] if job and job.run else []
    return [name for name in dict.fromkeys(names) if name]
