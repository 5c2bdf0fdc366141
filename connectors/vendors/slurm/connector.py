"""Slurm: how the job that an alert is about ended or why it waits, and which of its nodes are
drained or down.

slurmrestd is asked, by GET alone: the accounting (`/slurmdb/VERSION/jobs/`, what `sacct` shows),
without one the controller (`/slurm/VERSION/jobs/`, what `squeue` shows), and the nodes
(`/slurm/VERSION/nodes/`). Parameters and answers: the OpenAPI documents of Slurm 24.11, 25.11 and
26.05. Slurm has no web pages, so evidence has no links.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from faultline.analysis.case.tables import SCHEMAS
from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import EvidenceKind
from faultline.connectors.shared.auth.server_access import ANYONE, ServerAccess, access_of
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.http.http import HttpSession, ReadOnlyHttp
from faultline.connectors.shared.rows.collection_builder import StateRow, full_window, rows_table
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.slurm import SlurmSettings
from faultline.connectors.vendors.slurm.answers import (
    AccountedJobsAnswer,
    ControlledJobsAnswer,
    NodesAnswer,
    PingAnswer,
    SlurmJob,
)
from faultline.connectors.vendors.slurm.facts import job_nodes, job_rows, node_rows

VENDOR = "slurm"
LIMITS = Limits(deadline_s=30, max_bytes=64 * 1024 * 1024, requests_per_s=2, concurrency=2)
"""A request costs the controller a lock over all its jobs or nodes, so few are sent."""
VERSIONS = ("v0.0.45", "v0.0.44", "v0.0.43", "v0.0.42")
"""Slurm 26.05, 25.11, 25.05 and 24.11; each serves its own and the two before it."""
MOST_ATTEMPTS = 200

A = TypeVar("A", AccountedJobsAnswer, ControlledJobsAnswer, NodesAnswer, PingAnswer)


def build(slurm_settings: SlurmSettings, settings: SharedSettings) -> SlurmConnector | None:
    """The configured connector, or None without a URL."""
    if slurm_settings.url is None:
        return None
    return SlurmConnector(
        slurm_settings.url,
        access_of(slurm_settings, VENDOR),
        version=slurm_settings.version,
        cluster=slurm_settings.cluster,
        limits=slurm_settings.limits(LIMITS),
    )


class SlurmConnector:
    """Asks nothing for alerts without a training job."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("states",)

    def __init__(
        self,
        url: str,
        access: ServerAccess = ANYONE,
        *,
        version: str | None = None,
        cluster: str | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._http = ReadOnlyHttp(VENDOR, url, access=access, limits=limits)
        self._version = version
        self._cluster = cluster
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """States of the job's attempts and of its nodes. A call that fails becomes a gap, the
        other stands."""
        if request.scope.job is None:
            return Collected()
        async with self._http.open() as session:
            version = await self._newest(session)
            question = _SlurmQuestion(session, version, self._cluster, request)
            await question.ask()
        return question.collected()

    async def check(self) -> Check:
        """Can jobs and nodes be read?"""
        try:
            async with self._http.open() as session:
                version = await self._newest(session)
                nodes = await _fetch(session, f"/slurm/{version}/nodes/", [], NodesAnswer)
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        line = (
            f"slurmrestd {version} at {self._http.base_url}: {len(nodes.nodes)} nodes can be "
            "read; only GET is sent"
        )
        return Check(self.name, True, line)

    async def _newest(self, session: HttpSession) -> str:
        """The version to speak. Raises ConnectorError where the server has none that is known."""
        if self._version is not None:
            return self._version
        for version in VERSIONS:
            try:
                await _fetch(session, f"/slurm/{version}/ping/", [], PingAnswer)
            except ConnectorError as error:
                # 404: the server does not speak this version. Other errors would repeat for each.
                if error.status != 404:
                    raise
            else:
                return version
        problem = f"the server has none of {', '.join(VERSIONS)}; set slurm.version"
        raise ConnectorError(VENDOR, "ping", problem)


class _SlurmQuestion:
    """One collection."""

    def __init__(
        self, session: HttpSession, version: str, cluster: str | None, request: Request
    ) -> None:
        self._session = session
        self._version = version
        self._cluster = cluster
        self._scope = request.scope
        identity = request.scope.training
        job = identity.slurm_job_id if identity else None
        # It becomes a part of a path.
        self._job_id = job if job and job.isascii() and job.isdigit() else None
        self._name = request.scope.job or ""
        self._hosts = _hosts(request)
        self._rows: list[StateRow] = []
        self._items: list[Item] = []
        self._missing: list[Missing] = []

    async def ask(self) -> None:
        jobs = await self._jobs()
        names = {*job_nodes(jobs), *self._hosts}
        waiting = {job.partition for job in jobs if "PENDING" in job.states and job.partition}
        if names or waiting:
            await self._nodes(names, waiting)

    def collected(self) -> Collected:
        table = rows_table(self._rows, SCHEMAS["states"].columns)
        tables = {"states": table} if self._rows else {}
        return Collected(tables, tuple(self._items), tuple(self._missing))

    async def _jobs(self) -> list[SlurmJob]:
        """The job's attempts in the windows, by the accounting, else by the controller."""
        try:
            jobs, query = await self._accounted()
        except FaultlineError as error:
            try:
                jobs, query = await self._controlled()
            except FaultlineError:
                # The accounting knows more, so its refusal is the one to mend.
                self._missing.append(Missing("states", "jobs", str(error)))
                return []
            phrase = f"{error}; the controller was asked instead, which forgets jobs that ended"
            self._missing.append(Missing("states", "accounting", phrase))
        if not jobs:
            which = self._job_id or short(self._name, 60)
            reason = f"Slurm knows no job {which} in these windows"
            self._missing.append(Missing("states", query, reason, unknown=True))
            return []
        self._keep(query, job_rows(jobs[:MOST_ATTEMPTS], self._name))
        return jobs[:MOST_ATTEMPTS]

    async def _accounted(self) -> tuple[list[SlurmJob], str]:
        window = full_window(self._scope)
        params = [
            ("start_time", str(int(window.start.timestamp()))),
            ("end_time", str(int(window.end.timestamp()))),
            # Each attempt of a requeued job.
            ("show_duplicates", "true"),
            ("skip_steps", "true"),
        ]
        if self._job_id:
            params.append(("step", self._job_id))
        else:
            params.append(("job_name", self._name))
        if self._cluster:
            params.append(("cluster", self._cluster))
        path = f"/slurmdb/{self._version}/jobs/"
        answer = await _fetch(self._session, path, params, AccountedJobsAnswer)
        jobs = [SlurmJob.accounted(job) for job in answer.jobs]
        return self._ours(jobs), f"{path}?{_query_text(params)}"

    async def _controlled(self) -> tuple[list[SlurmJob], str]:
        path = f"/slurm/{self._version}/jobs/"
        if self._job_id:
            path = f"/slurm/{self._version}/job/{self._job_id}"
        answer = await _fetch(self._session, path, [], ControlledJobsAnswer)
        return self._ours([SlurmJob.controlled(job) for job in answer.jobs]), path

    def _ours(self, jobs: Sequence[SlurmJob]) -> list[SlurmJob]:
        """Those that the alert is about: the server's own filter is not relied on."""
        if self._job_id:
            return [job for job in jobs if str(job.id) == self._job_id]
        return [job for job in jobs if job.name == self._name]

    async def _nodes(self, names: set[str], waiting: set[str]) -> None:
        path = f"/slurm/{self._version}/nodes/"
        try:
            answer = await _fetch(self._session, path, [], NodesAnswer)
        except FaultlineError as error:
            self._missing.append(Missing("states", path, str(error)))
            return
        # Thousands of nodes are looked through, which would block the event loop.
        rows = await asyncio.to_thread(node_rows, answer.nodes, names, waiting, self._name)
        self._keep(path, rows)

    def _keep(self, query: str, rows: Sequence[StateRow]) -> None:
        self._rows += [row._replace(query=query) for row in rows]
        window = full_window(self._scope)
        self._items.append(Item("states", query, window, rows=len(rows)).holding(rows))


def _hosts(request: Request) -> tuple[str, ...]:
    """Hosts that the alert or the settings name."""
    identity = request.scope.training
    if identity is None:
        return ()
    return (*identity.hosts, *((identity.node,) if identity.node else ()))


async def _fetch(
    session: HttpSession, path: str, params: list[tuple[str, str]], type: type[A]
) -> A:
    """The answer. Raises ConnectorError, also where it is an error with status 200."""
    answer = await session.get(path, params, type=type)
    for error in answer.errors:
        problem = short(error.description or error.error or "an error without a name", 200)
        raise ConnectorError(VENDOR, path, problem)
    return answer


def _query_text(params: Sequence[tuple[str, str]]) -> str:
    return "&".join(f"{name}={value}" for name, value in params)
