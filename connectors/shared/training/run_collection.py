"""What is collected from a tracker of training runs: the run that an alert is about, its history,
the metrics of its hosts, its state, and what it does otherwise than the run before it.

A tracker (Weights & Biases, MLflow) says how runs are looked up and read. The rest is the same for
all.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import polars as pl

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import EvidenceKind, Window
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.http.http import HttpSession, VendorHttp
from faultline.connectors.shared.training import training_runs
from faultline.connectors.shared.training.training_runs import TrainingRun
from faultline.connectors.shared.vendor_text import short

MOST_NAME = 256
RUNS_LISTED = 50
MOST_RUNS = 8
"""Runs of one launch (one per rank or node), and runs before it, that are read."""

Rows = tuple[Sequence[Mapping[str, Any]], str | None]
"""Rows of metrics, and where they were cut."""
R = TypeVar("R", bound=TrainingRun)
P = TypeVar("P")
H = TypeVar("H", bound=HttpSession)


class RunCollection(Generic[R]):
    """One collection: the run, and what it brought."""

    vendor: ClassVar[str]
    settings_word: ClassVar[str]
    """What the tracker calls the settings of a run."""
    heartbeat_words: ClassVar[tuple[str, str]]
    """What its last sign of life is called, and what stands for none."""
    no_system: ClassVar[str] = ""
    """The gap where there are no metrics of its hosts, unless that is usual."""

    def __init__(self, request: Request, place: str) -> None:
        self._request = request
        self._place = place
        self._alike: list[R] = []
        self._tables: dict[str, list[pl.DataFrame]] = {"metrics": [], "changes": []}
        self._items: list[Item] = []
        self.missing: list[Missing] = []
        scope = request.scope
        self._windows = (*scope.baseline, scope.incident)
        self.span = Window(start=min(w.start for w in self._windows), end=scope.incident.end)

    async def by_id(self, name: str) -> R | None:
        """The run with this id, as a whole. Raises ConnectorError, BudgetExceeded."""
        raise NotImplementedError

    async def listed(self, name: str) -> list[R]:
        """The runs that people call so, the newest first. Raises ConnectorError,
        BudgetExceeded."""
        raise NotImplementedError

    async def whole(self, run: R) -> R | None:
        """A run of a list with all that `by_id` gives."""
        return run

    def name_of_job(self, job: str) -> str:
        """What the runs of a job are called. Empty stands for any name."""
        return job

    async def history_rows(self, run: R, query: str) -> Rows:
        """A row for each step. Raises ConnectorError, BudgetExceeded."""
        raise NotImplementedError

    async def system_rows(self, run: R, query: str) -> Rows:
        """Rows of the metrics of its hosts. Raises ConnectorError, BudgetExceeded."""
        raise NotImplementedError

    def label(self, run: R) -> str:
        """The run as evidence names it."""
        raise NotImplementedError

    def link(self, run: R) -> str:
        """Its page."""
        raise NotImplementedError

    async def collected(self, names: Sequence[str], job: str | None) -> Collected:
        """Everything that came. What cannot be collected is a gap, the rest stands."""
        run = await self._lookup(names, job)
        if run is None:
            sought = " or ".join(short(name, 60) for name in (*names, *([job] if job else ())))
            reason = f"no run there is called {sought}"
            return Collected(missing=(Missing("metrics", self._place, reason),))
        # Found by its id: the runs to compare it with are not listed yet.
        if not self._alike:
            name = self.name_of_job(run.group or run.displayName or run.name)
            self._alike = await self.listed(name)
        job, launch = job or run.label, self._launch(run)
        await asyncio.gather(
            self._history(run, job),
            *(self._system(launched, job) for launched in launch),
            self._changes(run, job),
        )
        tables = {name: pl.concat(parts) for name, parts in self._tables.items() if parts}
        shown = [*launch, *self._earlier(run, launch)]
        links = {run.name: self.link(run) for run in shown}
        tables["monitors"] = training_runs.states_table(shown, job, self.span.end, links)
        self._items += [self._state(run) for run in shown]
        return Collected(tables, tuple(self._items), tuple(self.missing))

    async def _lookup(self, names: Sequence[str], job: str | None) -> R | None:
        """By the id or name that the alert gives, else the job's newest run that had begun when the
        incident ended."""
        for name in names:
            run = await self.by_id(name) or await self._newest(name)
            if run is not None:
                return run
        run = await self._newest(self.name_of_job(job)) if job is not None else None
        if run is not None and names:
            reason = (
                f"no run is called {short(names[0], 60)}; the newest of "
                f"{short(job or '', 60)} is shown instead"
            )
            self.missing.append(Missing("metrics", self._place, reason))
        return run

    async def _newest(self, name: str) -> R | None:
        self._alike = await self.listed(name)
        for run in self._alike:
            if run.created is not None and run.created <= self.span.end:
                return await self.whole(run)
        return None

    def _launch(self, run: R) -> list[R]:
        """The run, and those that were launched with it."""
        peers = []
        for other in self._alike:
            in_group = other.group and other.group == run.group
            if in_group and other.name != run.name and other.launched_with(run):
                peers.append(other)
        return [run, *peers[: MOST_RUNS - 1]]

    def _earlier(self, run: R, launch: Sequence[R]) -> list[R]:
        """Runs before it that were last heard of in the windows: a job that crashed and was
        restarted."""
        earlier = []
        for other in self._alike:
            if other.heartbeat is not None and other not in launch and other.ran_before(run):
                earlier.append((other.heartbeat, other))
        return [other for at, other in earlier[:MOST_RUNS] if self.span.start <= at]

    async def _history(self, run: R, job: str) -> None:
        """Loss, gradient norm, throughput and the like: as series by time, and as the job's own
        metrics by step."""
        query = f"history of {self.label(run)}"
        try:
            rows, cut = await self.history_rows(run, query)
        except FaultlineError as error:
            self.missing.append(Missing("metrics", query, str(error)))
            return
        table = training_runs.training_rows(rows, job, self._windows)
        reason = "the run logged nothing in these windows under names that are known"
        self._keep(run, query, table, cut, reason)
        # By step the history tells of a run even where no row lies in the windows.
        lines = training_runs.history_lines(rows)
        if not lines:
            return
        # It becomes the name of a file: keep nothing that could lead elsewhere.
        run_id = re.sub(r"[^A-Za-z0-9_-]", "_", run.name)[:64]
        file = f"{self.vendor}-{run_id}.history.jsonl"
        try:
            await asyncio.to_thread((self._request.files / file).write_bytes, lines)
        except OSError as error:
            reason = f"cannot be written ({error.strerror})"
            self.missing.append(Missing("traces", query, reason))
            return
        size, count = len(lines), lines.count(b"\n")
        link = self.link(run)
        self._items.append(
            Item("traces", query, link=link, file=file, rows=count, bytes=size, cut=cut)
        )

    async def _system(self, run: R, job: str) -> None:
        """GPU, CPU, memory and disk of the hosts of one run."""
        query = f"system metrics of {self.label(run)}"
        try:
            rows, cut = await self.system_rows(run, query)
        except FaultlineError as error:
            self.missing.append(Missing("metrics", query, str(error)))
            return
        table = training_runs.system_rows(rows, job, run.label, self._windows)
        self._keep(run, query, table, cut, self.no_system)

    def _keep(self, run: R, query: str, table: pl.DataFrame, cut: str | None, no_rows: str) -> None:
        if table.height:
            self._tables["metrics"].append(table)
            link = self.link(run)
            item = Item("metrics", query, self.span, link, rows=table.height, cut=cut)
            self._items.append(item.holding(table))
        elif no_rows:
            self.missing.append(Missing("metrics", query, no_rows))

    async def _changes(self, run: R, job: str) -> None:
        """What this run does otherwise than the last one before it that was not launched with
        it."""
        earlier = [other for other in self._alike if other.ran_before(run)]
        # The last one of the same name, else of the same group.
        same = [other for other in earlier if other.displayName == run.displayName]
        before = next(iter(same or earlier), None)
        if before is None:
            return
        query = f"{self.settings_word} of {self.label(run)} against {short(before.name, 60)}"
        try:
            whole = await self.whole(before)
        except FaultlineError as error:
            self.missing.append(Missing("changes", query, str(error)))
            return
        if whole is None:
            self.missing.append(Missing("changes", query, "the run before it cannot be read"))
            return
        link = self.link(run)
        table = training_runs.changes_table(whole, run, job, link, self.vendor)
        self._tables["changes"].append(table)
        self._items.append(Item("changes", query, link=link, rows=table.height).holding(table))

    def _state(self, run: R) -> Item:
        word, none = self.heartbeat_words
        details = {
            "state": run.state_at(self.span.end),
            "started": run.createdAt or "?",
            word: run.heartbeatAt or none,
        }
        if run.commit:
            details["commit"] = short(run.commit, 60)
        query = f"state of {self.label(run)}"
        return Item("monitors", query, link=self.link(run), rows=1, details=details)


class RunConnector(Generic[H, P]):
    """A tracker whose runs lie in places: projects or experiments. It is asked nothing for alerts
    without a training job or run."""

    name: ClassVar[str]
    kinds: tuple[EvidenceKind, ...] = ("metrics", "monitors", "changes")
    title: ClassVar[str]
    place_word: ClassVar[str]
    requests_word: ClassVar[str]
    """What is sent to it."""
    no_access: ClassVar[str]
    """The problem with a place that is not there, or not to be seen."""
    run_labels: ClassVar[tuple[str, ...]]
    """An alert's labels that name its run, by id or by the name that people gave it."""

    def __init__(self, http: VendorHttp[H], default: P | None, by_job: Mapping[str, P]) -> None:
        self.http = http
        self.limits = http.limits
        self._default = default
        self._by_job = by_job

    async def can_read(self, session: H, place: P) -> bool:
        """Whether it is there and may be seen. Raises ConnectorError, BudgetExceeded."""
        raise NotImplementedError

    async def collection(self, session: H, place: P, request: Request) -> RunCollection[Any]:
        """A collection there. Raises ConnectorError, BudgetExceeded."""
        raise NotImplementedError

    async def collect(self, request: Request) -> Collected:
        """The run that the alert is about."""
        labels, job, training = request.alert.labels, request.scope.job, request.scope.training
        names = [labels.get(name, "").strip() for name in self.run_labels]
        names.append((training.run if training else None) or "")
        names = [name for name in dict.fromkeys(names) if 0 < len(name) <= MOST_NAME]
        if not names and job is None:
            return Collected()
        place = self._by_job.get(job or "", self._default)
        if place is None:
            reason = f"no {self.title} {self.place_word} is set for this job"
            return Collected(missing=(Missing("metrics", short(job or "", 60), reason),))
        async with self.http.open() as session:
            collection = await self.collection(session, place, request)
            return await collection.collected(names, job)

    async def check(self) -> Check:
        """Can each configured place be read?"""
        default = [self._default] if self._default else []
        places = list(dict.fromkeys([*default, *self._by_job.values()]))
        if not places:
            key = f"{self.name}.{self.place_word}"
            return Check(self.name, False, f"set {key} or {key}s")
        try:
            async with self.http.open() as session:
                denied = [place for place in places if not await self.can_read(session, place)]
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        if denied:
            return Check(self.name, False, f"{', '.join(map(str, denied))}: {self.no_access}")
        line = f"{self.title} at {self.http.base_url}: {', '.join(map(str, places))} can be read"
        return Check(self.name, True, f"{line}; only {self.requests_word} are sent")
