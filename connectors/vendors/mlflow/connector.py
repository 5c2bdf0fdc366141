"""MLflow: a training run's metrics, system metrics, state, and what it does otherwise than the run
before it, by the tracking server's REST API (mlflow.org/docs/latest/rest-api.html): GET, and the
one POST that searches runs, which has no other way.

Tables and their meaning are those of `faultline.connectors.shared.training.training_runs`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.connectors.shared.auth.server_access import access_of
from faultline.connectors.shared.contract.base import Missing, Request
from faultline.connectors.shared.http.http import HttpSession, VendorHttp
from faultline.connectors.shared.rows.collection_builder import epoch_ms
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.training.run_collection import (
    RUNS_LISTED,
    Rows,
    RunCollection,
    RunConnector,
)
from faultline.connectors.shared.training.training_runs import measure_keys, rows_by_step
from faultline.connectors.shared.transport.transport import CALL
from faultline.connectors.shared.vendor_text import plain_url, short
from faultline.connectors.vendors.mlflow import MlflowSettings
from faultline.connectors.vendors.mlflow.answers import (
    ExperimentAnswer,
    HistoryAnswer,
    MlflowMetric,
    MlflowRun,
    RunAnswer,
    RunsAnswer,
    rows_of,
    system_key,
)

T = TypeVar("T")
VENDOR = "mlflow"
API = "/api/2.0/mlflow"
SEARCH = f"{API}/runs/search"
LIMITS = Limits(deadline_s=40, max_bytes=96 * 1024 * 1024, requests_per_s=8, concurrency=4)
RUN_LABELS = ("mlflow_run", "mlflow_run_id", "run_id", "run_name")
MOST_KEYS, MOST_SYSTEM_KEYS = 16, 48
PAGE, MOST_PAGES = 25_000, 4
"""Values of one metric in an answer, and answers that are read of it."""
_ID = re.compile(r"[0-9a-f]{32}")
_NAME = re.compile(r"[^'\"\\\x00-\x1f]{1,256}")
"""Names that can stand in a filter."""


class MlflowSession(HttpSession):
    """One collection's requests."""

    async def lookup(self, call: str, param: tuple[str, str], type: type[T]) -> T | None:
        """What has this name or id, if anything. Raises ConnectorError, BudgetExceeded."""
        try:
            return await self.get(f"{API}/{call}", [param], type=type)
        except ConnectorError as error:
            if error.status != 404:
                raise
            return None

    async def experiment_id(self, name: str) -> str | None:
        """Of the experiment with this name. Raises ConnectorError, BudgetExceeded."""
        param = ("experiment_name", name)
        answer = await self.lookup("experiments/get-by-name", param, ExperimentAnswer)
        return answer.experiment.experiment_id if answer else None

    async def search(self, body: Mapping[str, Any]) -> RunsAnswer:
        """Runs. Raises ConnectorError, BudgetExceeded."""
        response = await self._client.post(
            self._base_url + SEARCH,
            content=msgspec.json.encode(body),
            headers={"Content-Type": "application/json"},
            extensions={CALL: SEARCH},
        )
        return self._decoded(SEARCH, self._accepted(SEARCH, response), RunsAnswer)


class MlflowHttp(VendorHttp[MlflowSession]):
    """A tracking server."""

    session = MlflowSession

    def _allowed(self, request: httpx.Request) -> None:
        """Look at what is about to be sent, whoever built it."""
        is_search = request.method == "POST" and str(request.url) == self.base_url + SEARCH
        if request.method != "GET" and not is_search:
            raise ConnectorError(self.vendor, request.method, "a connector only searches runs")


@dataclass(frozen=True)
class Experiment:
    """Where a job's runs are."""

    name: str
    is_exclusive: bool = False
    """Whether it is the job's alone, so that its runs may have any name."""

    def __str__(self) -> str:
        return self.name


class MlflowConnector(RunConnector[MlflowSession, Experiment]):
    """One tracking server."""

    name = VENDOR
    title = "MLflow"
    place_word = "experiment"
    requests_word = "searches"
    no_access = "no such experiment, or these credentials may not see it"
    run_labels = RUN_LABELS

    def __init__(self, section: MlflowSettings, url: str) -> None:
        access, limits = access_of(section, VENDOR), section.limits(LIMITS)
        http = MlflowHttp(VENDOR, url, access=access, limits=limits)
        default = Experiment(section.experiment) if section.experiment else None
        by_job = {job: Experiment(name, True) for job, name in section.experiments.items()}
        super().__init__(http, default, by_job)
        public = section.public_url
        self._page = plain_url(public, VENDOR) if public else http.base_url

    async def can_read(self, session: MlflowSession, place: Experiment) -> bool:
        return await session.experiment_id(place.name) is not None

    async def collection(
        self, session: MlflowSession, place: Experiment, request: Request
    ) -> MlflowCollection:
        experiment_id = await session.experiment_id(place.name)
        if experiment_id is None:
            raise ConnectorError(VENDOR, short(place.name, 60), self.no_access)
        return MlflowCollection(session, place, experiment_id, request, self._page)


class MlflowCollection(RunCollection[MlflowRun]):
    """One collection from an experiment."""

    vendor = VENDOR
    settings_word = "parameters"
    heartbeat_words = ("ended", "not yet")

    def __init__(
        self,
        session: MlflowSession,
        experiment: Experiment,
        experiment_id: str,
        request: Request,
        page: str,
    ) -> None:
        super().__init__(request, short(experiment.name, 60))
        self._session = session
        self._experiment = experiment
        self._experiment_id = experiment_id
        self._page = page

    def name_of_job(self, job: str) -> str:
        return "" if self._experiment.is_exclusive else job

    def label(self, run: MlflowRun) -> str:
        return short(run.name, 60)

    def link(self, run: MlflowRun) -> str:
        ids = (quote(text, safe="") for text in (run.experiment_id, run.name))
        return "{}/#/experiments/{}/runs/{}".format(self._page, *ids)

    async def by_id(self, name: str) -> MlflowRun | None:
        if not _ID.fullmatch(name):
            return None
        answer = await self._session.lookup("runs/get", ("run_id", name), RunAnswer)
        # An id finds runs of any experiment. Only the configured one is read.
        if answer is None or answer.run.info.experiment_id != self._experiment_id:
            return None
        return answer.run.shown

    async def listed(self, name: str) -> list[MlflowRun]:
        # The name stands in a filter, where a quote would end it.
        if name and not _NAME.fullmatch(name):
            return []
        # A run that began after the incident cannot be the one that the alert is about.
        filters = [f"attributes.start_time <= {epoch_ms(self.span.end)}"]
        filters += [f"attributes.run_name = '{name}'"] if name else []
        body: dict[str, Any] = {
            "experiment_ids": [self._experiment_id],
            "filter": " AND ".join(filters),
            "max_results": RUNS_LISTED,
            "order_by": ["attributes.start_time DESC"],
        }
        return [run.shown for run in (await self._session.search(body)).runs]

    async def history_rows(self, run: MlflowRun, query: str) -> Rows:
        # MLflow keeps the hosts' metrics among the run's, under this prefix.
        keys = {key for key in run.metrics if not key.startswith("system/")}
        factors = {key: (key, 1.0) for key in measure_keys(keys)[:MOST_KEYS]}
        rows, cut = await self._rows(run, query, factors)
        return rows_by_step([rows]), cut

    async def system_rows(self, run: MlflowRun, query: str) -> Rows:
        names: dict[str, tuple[str, float]] = {}
        for key in sorted(run.metrics):
            shared_metric = system_key(key)
            if shared_metric is not None and len(names) < MOST_SYSTEM_KEYS:
                names[key] = shared_metric
        return await self._rows(run, query, names)

    async def _rows(
        self, run: MlflowRun, query: str, names: Mapping[str, tuple[str, float]]
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Rows of all keys, with what each is called here and the factor to its unit; a key that
        fails is a gap."""
        readings = await asyncio.gather(*(self._values(run, query, key) for key in names))
        rows: list[dict[str, Any]] = []
        cut = None
        for (name, factor), (values, more) in zip(names.values(), readings, strict=True):
            rows += rows_of(name, values, factor)
            cut = f"the first {PAGE * MOST_PAGES:,} values of a metric" if more else cut
        return rows, cut

    async def _values(
        self, run: MlflowRun, query: str, key: str
    ) -> tuple[list[MlflowMetric], bool]:
        """The values of a metric, and whether there are more."""
        values: list[MlflowMetric] = []
        token = ""
        for _ in range(MOST_PAGES):
            params = [("run_id", run.name), ("metric_key", key)]
            params += [("max_results", str(PAGE)), *([("page_token", token)] if token else ())]
            try:
                path = f"{API}/metrics/get-history"
                answer = await self._session.get(path, params, type=HistoryAnswer)
            except FaultlineError as error:
                self.missing.append(Missing("metrics", f"{query}: {short(key, 60)}", str(error)))
                # Keep what came: the gap already says that the rest is missing.
                return values, False
            values += answer.metrics
            token = answer.next_page_token or ""
            if not token:
                break
        return values, bool(token)


def build(section: MlflowSettings, shared: SharedSettings) -> MlflowConnector | None:
    """The configured connector, or None without a URL."""
    # Every connector is built with the same arguments.
    del shared
    return None if section.url is None else MlflowConnector(section, section.url)
