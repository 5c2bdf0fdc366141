"""Ray: how the job that an alert is about ended or why it waits, and which nodes died meanwhile.

The dashboard is asked, by GET alone: jobs (`/api/jobs/`, Ray's published OpenAPI description of the
Jobs API) and nodes (`/api/v0/nodes`, the state API, which has no published description:
ray-project/ray, python/ray/util/state/common.py `NodeState`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase

import msgspec

from faultline.analysis.case.tables import SCHEMAS
from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import EvidenceKind, Window
from faultline.connectors.shared.auth.server_access import ANYONE, ServerAccess, access_of
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.http.http import HttpSession, ReadOnlyHttp
from faultline.connectors.shared.rows.collection_builder import (
    LATEST_NS,
    StateRow,
    full_window,
    rows_table,
)
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import plain_url, short
from faultline.connectors.vendors.ray import RaySettings

VENDOR = "ray"
LIMITS = Limits(deadline_s=20, max_bytes=32 * 1024 * 1024, requests_per_s=4, concurrency=2)
JOBS = "/api/jobs/"
NODES = "/api/v0/nodes"
MOST_NODES = 10_000
"""The state API's own limit (RAY_MAX_LIMIT_FROM_API_SERVER)."""
MOST_ROWS = 64
JOB_NAMES = ("job_name", "job_submission_id")
"""Keys of a job's metadata that name it (ray-project/ray, dashboard/modules/job/common.py)."""
MEANT = re.compile(r"(?i)^expected termination|\bidle\b")
"""How a node's end is described that was asked for, as an autoscaler does."""


class RayJob(msgspec.Struct):
    """`JobDetails`. `driver_exit_code` is newer than the description."""

    status: str
    submission_id: str | None = None
    job_id: str | None = None
    message: str | None = None
    error_type: str | None = None
    start_time: int | None = None
    end_time: int | None = None
    metadata: dict[str, str] | None = None
    driver_exit_code: int | None = None

    @property
    def id(self) -> str:
        # A job that did not come through the Jobs API has no submission id.
        return self.submission_id or self.job_id or ""


class RayNode(msgspec.Struct):
    """`NodeState` with its details."""

    node_id: str = ""
    node_ip: str = ""
    node_name: str = ""
    state: str = ""
    state_message: str | None = None
    end_time_ms: int | None = None


class ListedNodes(msgspec.Struct):
    result: list[RayNode]
    total: int | None = None


class NodesData(msgspec.Struct):
    result: ListedNodes


class NodesAnswer(msgspec.Struct):
    """Of an error, which the status tells, `data.result` is null."""

    data: NodesData


class VersionAnswer(msgspec.Struct):
    ray_version: str = "of unknown version"


def build(ray_settings: RaySettings, settings: SharedSettings) -> RayConnector | None:
    """The configured connector, or None without a URL."""
    if ray_settings.url is None:
        return None
    aliases = {name: job.aliases for name, job in settings.jobs.items() if job.aliases}
    return RayConnector(
        ray_settings.url,
        access_of(ray_settings, VENDOR),
        aliases=aliases,
        public_url=ray_settings.public_url,
        limits=ray_settings.limits(LIMITS),
    )


class RayConnector:
    """Asks nothing for alerts without a training job. `aliases`: other names of a job."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("states",)

    def __init__(
        self,
        url: str,
        access: ServerAccess = ANYONE,
        *,
        aliases: Mapping[str, Sequence[str]] | None = None,
        public_url: str | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._http = ReadOnlyHttp(VENDOR, url, access=access, limits=limits)
        self._page = plain_url(public_url, VENDOR) if public_url else self._http.base_url
        self._aliases = dict(aliases or {})
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """States of the job's submissions and of nodes that died. A call that fails becomes a gap,
        the other stands."""
        job = request.scope.job
        if job is None:
            return Collected()
        window = full_window(request.scope)
        rows: list[StateRow] = []
        items: list[Item] = []
        missing: list[Missing] = []
        async with self._http.open() as session:
            try:
                listed = await session.get(JOBS, type=list[RayJob])
                ray_jobs = [
                    ray_job
                    for ray_job in listed
                    if self._is_of_job(ray_job, request) and _in(ray_job, window)
                ]
                new_rows = [row for ray_job in ray_jobs for row in self._of_job(ray_job, job)][
                    :MOST_ROWS
                ]
                rows += new_rows
                items.append(
                    Item("states", JOBS, window, f"{self._page}/#/jobs", rows=len(new_rows))
                )
                if not ray_jobs:
                    reason = f"Ray knows no job {short(job, 60)} in these windows"
                    missing.append(Missing("states", JOBS, reason, unknown=True))
            except FaultlineError as error:
                missing.append(Missing("states", JOBS, str(error)))
            try:
                died, cut = await _dead_nodes(session, window)
                new_rows = [self._of_node(node, job) for node in died[:MOST_ROWS]]
                rows += new_rows
                link = f"{self._page}/#/cluster"
                items.append(Item("states", NODES, window, link, rows=len(new_rows), cut=cut))
            except FaultlineError as error:
                missing.append(Missing("states", NODES, str(error)))
        table = rows_table(rows, SCHEMAS["states"].columns)
        return Collected({"states": table} if rows else {}, tuple(items), tuple(missing))

    async def check(self) -> Check:
        """Can jobs and nodes be read? The dashboard has no rights that differ by caller."""
        try:
            async with self._http.open() as session:
                version = await session.get("/api/version", type=VersionAnswer)
                jobs = await session.get(JOBS, type=list[RayJob])
                await _nodes(session)
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        line = (
            f"Ray {short(version.ray_version, 40)} at {self._http.base_url}: {len(jobs)} jobs can "
            "be read; only GET is sent"
        )
        return Check(self.name, True, line)

    def _is_of_job(self, ray_job: RayJob, request: Request) -> bool:
        """Whether a submission is of the training job: by the name it was given, or by its id."""
        job = request.scope.job or ""
        identity = request.scope.training
        patterns = [job, *self._aliases.get(job, ())]
        patterns += [identity.run] if identity is not None and identity.run else []
        metadata = ray_job.metadata or {}
        names = [ray_job.id, *(metadata[key] for key in JOB_NAMES if key in metadata)]
        return any(_like(name, pattern) for name in names for pattern in patterns)

    def _of_job(self, ray_job: RayJob, job: str) -> list[StateRow]:
        fact = _fact(ray_job)
        if fact is None:
            return []
        name, value, since = fact
        return [
            StateRow(
                kind="Ray job",
                name=short(ray_job.id, 120),
                fact=name,
                service=job,
                field="status",
                value=short(value, 200) or None,
                since=since,
                query=JOBS,
                link=f"{self._page}/#/jobs",
            )
        ]

    def _of_node(self, node: RayNode, job: str) -> StateRow:
        return StateRow(
            kind="Node",
            name=short(node.node_name or node.node_ip or node.node_id, 100),
            fact="node_not_ready",
            service=job,
            field="state",
            value=short(node.state_message or node.state, 200) or None,
            since=_at(node.end_time_ms),
            query=NODES,
            link=f"{self._page}/#/cluster",
        )


def _fact(ray_job: RayJob) -> tuple[str, str, datetime | None] | None:
    """(fact, value, since) of a submission; None of one that is well."""
    message = ray_job.message or ""
    if ray_job.status == "FAILED":
        code = "" if ray_job.driver_exit_code is None else f"exit code {ray_job.driver_exit_code}"
        # What a job that failed said last: its message ends with the last 20,000 characters of its
        # log (dashboard/modules/job/job_supervisor.py).
        lines = message.strip().splitlines()
        text = ", ".join(part for part in (code, (lines[-1] if lines else "")) if part)
        return "job_failed", text or ray_job.error_type or "", _at(ray_job.end_time)
    # STOPPED: somebody asked for it.
    if ray_job.status == "STOPPED":
        return "job_cancelled", "", _at(ray_job.end_time)
    if ray_job.status == "PENDING":
        return "unschedulable", message, _at(ray_job.start_time)
    return None


def _in(ray_job: RayJob, window: Window) -> bool:
    """Whether it was there in the window: Ray lists every job since the cluster began."""
    start, end = _at(ray_job.start_time), _at(ray_job.end_time)
    return (start is None or start <= window.end) and (end is None or end >= window.start)


async def _nodes(session: HttpSession) -> ListedNodes:
    """All nodes that Ray remembers. Raises ConnectorError."""
    params = [("detail", "1"), ("limit", str(MOST_NODES))]
    return (await session.get(NODES, params, type=NodesAnswer)).data.result


async def _dead_nodes(session: HttpSession, window: Window) -> tuple[list[RayNode], str | None]:
    """The nodes that died in the window although nobody wanted it, and what was left out."""
    listed = await _nodes(session)
    died = []
    for node in listed.result:
        at = _at(node.end_time_ms)
        in_window = at is not None and window.start <= at <= window.end
        if node.state == "DEAD" and in_window and not MEANT.search(node.state_message or ""):
            died.append(node)
    left_out = (listed.total or 0) - len(listed.result)
    return died, f"{left_out} of {listed.total} nodes left out" if left_out > 0 else None


def _like(name: str, pattern: str) -> bool:
    """Only `*` is special, as in the settings' other patterns."""
    plain = pattern.casefold().replace("[", "[[]").replace("?", "[?]")
    # A name is foreign text: bound what a pattern with several `*` has to match.
    return fnmatchcase(name.casefold()[:256], plain)


def _at(ms: int | None) -> datetime | None:
    if ms is None or not 0 < ms < LATEST_NS // 1_000_000:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC)
