"""Logs of containers: the last lines of those that crashed, then what a few pods of each service
wrote.

A cluster keeps the log of a container's run and of the run before it, as long as the pod is there.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol
from urllib.parse import quote

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.contract.base import Item, Missing
from faultline.connectors.shared.rows.collection_builder import LogRow
from faultline.connectors.shared.rows.log_windows import COMMAND, SOURCE
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.kubernetes.answers import ContainerStatus, Pod, Terminated
from faultline.connectors.vendors.kubernetes.change_inquiry import Link
from faultline.connectors.vendors.kubernetes.crash_lines import readable, telling_line
from faultline.connectors.vendors.kubernetes.pod_facts import blocking_container
from faultline.connectors.vendors.kubernetes.pods import CALM_ENDS, ObservedPod
from faultline.connectors.vendors.pagerduty.answers import moment

PODS_OF_SERVICE, MOST_RUNS = 3, 24
"""Pods whose log is read: instances of one service write alike, and three show whether they do.
`MOST_RUNS` bounds the requests of an investigation."""
LINES, LINE_BYTES = 1_000, 768 * 1024
"""The kubelet begins with the first of these lines and stops at this many bytes: with less, the
latest lines would be those that are lost."""
FIRST_BYTES = 128 * 1024
"""Where those do not reach back to the window's begin, its first lines are read as well: without
them everything that a busy service always writes would seem to be new."""
LAST_LINES, LAST_BYTES = 100, 128 * 1024
"""A stack trace has some fifty lines; the cause stands above or below it."""
SHOWN_LINES, SHOWN_LENGTH = 20, 3_000
LONGEST_LINE = 4_000
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
"""The annotation by which a pod names the container that matters (kubernetes.io, "Well-Known
Labels, Annotations and Taints"); without it kubectl takes the first, and so do we."""
GONE = (400, 404)
"""The container has not started, or the pod is gone: there is no log, and nothing is missing."""
FORBIDDEN = 403
REMEDY = "add `get` on `pods/log` to its role, or set kubernetes.logs = false"


class PodLogs(Protocol):
    """Whatever can read the log of a container."""

    async def log(self, path: str, selection: Mapping[str, str]) -> str:
        """The text at `path`. Raises ConnectorError, BudgetExceeded."""


@dataclass(frozen=True)
class ContainerRun:
    """A run of a container whose log may be read; `ended` where it crashed in the window."""

    observed_pod: ObservedPod
    container: str
    previous: bool = False
    ended: Terminated | None = None
    is_waited_for: bool = False
    """Whether it is an init container that keeps its pod from starting."""

    @property
    def pod(self) -> Pod:
        """Its pod."""
        return self.observed_pod.pod

    @property
    def space(self) -> str:
        """The namespace of its pod."""
        return short(self.pod.metadata.namespace or "", 100)

    @property
    def path(self) -> str:
        """Where its log is read."""
        space = quote(self.pod.metadata.namespace or "", safe="")
        return f"/api/v1/namespaces/{space}/pods/{quote(self.pod.metadata.name, safe='')}/log"

    def selection(self, since: datetime, now: datetime) -> dict[str, str]:
        """What is asked for: of a crash the last lines, else those since a time."""
        params = {"container": self.container, "timestamps": "true"}
        if self.previous:
            params["previous"] = "true"
        if self.ended is not None:
            return {**params, "tailLines": str(LAST_LINES), "limitBytes": str(LAST_BYTES)}
        first = self.first_selection(since, now)
        return {**first, "tailLines": str(LINES), "limitBytes": str(LINE_BYTES)}

    def first_selection(self, since: datetime, now: datetime) -> dict[str, str]:
        """Asks for the first lines since a time."""
        # The published API has no parameter for a time, though kubectl sends one.
        seconds = max(1, math.ceil((now - since).total_seconds()))
        return {
            "container": self.container,
            "timestamps": "true",
            "sinceSeconds": str(seconds),
            "limitBytes": str(FIRST_BYTES),
        }

    def command(self, since: datetime) -> str:
        """How a human reads the same."""
        pod, container = short(self.pod.metadata.name, 200), short(self.container, 60)
        phrase = f"{COMMAND} -n {self.space} {pod} -c {container} --timestamps"
        if self.previous:
            phrase += " --previous"
        if self.ended is not None:
            return f"{phrase} --tail={LAST_LINES}"
        return f"{phrase} --since-time={since:%Y-%m-%dT%H:%M:%SZ} --tail={LINES}"


@dataclass(frozen=True)
class CrashLine:
    """The line by which a container says why it ended, and how to read it."""

    run: ContainerRun
    line: str
    query: str


@dataclass
class LogInquiry:
    """The container logs of one collection."""

    reads: PodLogs
    link: Link
    window: Window
    rows: list[LogRow] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    crashes: list[CrashLine] = field(default_factory=list)
    _forbidden: set[str] = field(default_factory=set)

    async def read(self, runs: Sequence[ContainerRun], not_ready: frozenset[str]) -> None:
        """The logs of these runs. A namespace that forbids it is one gap, and so is a node that
        gives none: those that are `not_ready` are not asked."""
        by_node: dict[str, list[ContainerRun]] = {}
        for run in runs[:MOST_RUNS]:
            by_node.setdefault(run.pod.node or "", []).append(run)
        nodes = []
        for node, node_runs in by_node.items():
            if node in not_ready:
                reason = f"node {short(node, 100)} is not ready, and its kubelet holds the logs"
                self.missing.append(
                    Missing("logs", node_runs[0].command(self.window.start), reason)
                )
            else:
                nodes.append(self._read_node(node_runs))
        await asyncio.gather(*nodes)

    async def _read_node(self, runs: Sequence[ContainerRun]) -> None:
        """One after the other: a kubelet that does not answer is asked once."""
        for run in runs:
            if run.space in self._forbidden:
                continue
            try:
                await self._read(run)
            except ConnectorError as error:
                if error.status not in GONE and not self._may_go_on(run, error):
                    return
            # A limit is reached, and the next log would reach it too.
            except FaultlineError as error:
                self.missing.append(Missing("logs", run.command(self.window.start), str(error)))
                return

    def _may_go_on(self, run: ContainerRun, error: ConnectorError) -> bool:
        """Whether the node's other logs may be read; notes what is missing."""
        if error.status != FORBIDDEN:
            self.missing.append(Missing("logs", run.command(self.window.start), str(error)))
            return False
        if run.space not in self._forbidden:
            self._forbidden.add(run.space)
            reason = f"{error}: {REMEDY}"
            self.missing.append(Missing("logs", f"{COMMAND} -n {run.space}", reason))
        return True

    async def _read(self, run: ContainerRun) -> None:
        since, now = self.window.start, datetime.now(UTC)
        text = await self.reads.log(run.path, run.selection(since, now))
        lines = read_lines(text)
        cut = _cut(run, len(lines), len(text))
        if cut is not None and lines:
            first = await self.reads.log(run.path, run.first_selection(since, now))
            # The two answers may overlap: of the first keep what lies before the second.
            lines = [line for line in read_lines(first) if line[0] < lines[0][0]] + lines
        rows = [self._row(run, at, line) for at, line in lines]
        remaining_rows = [row for row in rows if self.window.start <= row.time <= self.window.end]
        self.rows += remaining_rows
        # Whose log it is is known also where it holds no line.
        item = self._item(run, lines, len(remaining_rows), cut).bringing("logs", remaining_rows)
        self.items.append(item)
        line = telling_line([line for _, line in lines])
        if line and (run.ended is not None or run.is_waited_for):
            self.crashes.append(CrashLine(run, line, run.command(self.window.start)))

    def _item(
        self,
        run: ContainerRun,
        lines: Sequence[tuple[datetime, str]],
        count: int,
        cut: str | None,
    ) -> Item:
        details = {}
        if run.ended is not None:
            shown = "\n".join(readable(masked(line)) for _, line in lines[-SHOWN_LINES:])
            details = {"last lines": shown[-SHOWN_LENGTH:]}
        return Item(
            "logs",
            run.command(self.window.start),
            self.window,
            self.link(run.space, "Pod", run.pod.metadata.name),
            rows=count,
            cut=cut,
            details=details,
            services=(run.observed_pod.service,),
        )

    def _row(self, run: ContainerRun, at: datetime, line: str) -> LogRow:
        meta = run.pod.metadata
        fields = {
            "pod": short(meta.name, 200),
            "container": short(run.container, 60),
            "namespace": run.space,
            "node": short(run.pod.node or "", 100),
            "source": SOURCE,
        }
        text = line
        if len(line) > LONGEST_LINE:
            # Masked before it is cut: half a key looks like none.
            text = masked(line)[:LONGEST_LINE]
        return LogRow(at, run.observed_pod.service, text, None, None, json.dumps(fields))


def _cut(run: ContainerRun, lines: int, length: int) -> str | None:
    """What of a container's log was left out; of a crash only the end is wanted."""
    if run.ended is not None:
        return None
    if length >= LINE_BYTES:
        return f"the first lines of the container, and {LINE_BYTES // 1024} KiB of its last"
    return f"the first lines of the container, and its last {LINES:,}" if lines >= LINES else None


def read_lines(text: str) -> list[tuple[datetime, str]]:
    """The lines with the times that the kubelet put before them; without a time a line is dropped,
    as the first one may be, which a limit of bytes cut."""
    lines = []
    for raw in text.split("\n"):
        stamp, _, line = raw.partition(" ")
        # A timestamp has some 30 characters: do not parse a whole line as one.
        at = moment(stamp) if len(stamp) <= 40 else None
        if at is not None and line.strip():
            lines.append((at, line.rstrip("\r")))
    return lines


def runs_to_read(
    observed_pods: Iterable[ObservedPod], unwell_nodes: frozenset[str], window: Window
) -> list[ContainerRun]:
    """What is read, the most telling first: crashes, the latest of each service before the others;
    then the main container of pods in trouble, and of the newest."""
    by_service: dict[str, list[ObservedPod]] = {}
    for observed_pod in observed_pods:
        by_service.setdefault(observed_pod.service, []).append(observed_pod)
    crashed: list[tuple[int, ContainerRun]] = []
    running: list[tuple[int, ContainerRun]] = []
    for service_pods in by_service.values():
        ends = [run for service_pod in service_pods for run in _crashes(service_pod, window)]
        ends.sort(
            key=lambda run: (moment(run.ended.finished_at) if run.ended else None) or window.start,
            reverse=True,
        )
        # Ranks are within a service: sorted by rank, every service gets a share of `MOST_RUNS`.
        crashed += enumerate(ends[:PODS_OF_SERVICE])
        # Two stable sorts: by trouble and, of equal trouble, the newest first.
        service_pods.sort(
            key=lambda service_pod: str(service_pod.pod.metadata.created), reverse=True
        )
        service_pods.sort(key=lambda service_pod: _trouble(service_pod, unwell_nodes))
        runs = [
            run for service_pod in service_pods[:PODS_OF_SERVICE] for run in _running(service_pod)
        ]
        running += enumerate(runs)
    crashed.sort(key=lambda ranked: ranked[0])
    running.sort(key=lambda ranked: ranked[0])
    return [run for _, run in (*crashed, *running)]


def _crashes(observed_pod: ObservedPod, window: Window) -> list[ContainerRun]:
    """Runs of its containers that failed in the window."""
    crashes = []
    for status in _statuses(observed_pod.pod):
        for state, previous in ((status.state, False), (status.last_state, True)):
            ended = state.terminated if state else None
            at = moment(ended.finished_at) if ended else None
            if ended is None or at is None or not window.start <= at <= window.end:
                continue
            if ended.exit_code or ended.reason not in CALM_ENDS:
                crashes.append(ContainerRun(observed_pod, status.name, previous, ended))
                break
    return crashes


def _running(observed_pod: ObservedPod) -> list[ContainerRun]:
    """The container of a pod that matters, where it runs; of a pod that has not started, the one
    that it waits for."""
    blocking = blocking_container(observed_pod.pod)
    if blocking is not None:
        return [ContainerRun(observed_pod, blocking.name, is_waited_for=True)]
    containers = (observed_pod.pod.spec.containers if observed_pod.pod.spec else None) or ()
    names = [container.name for container in containers]
    annotation = observed_pod.pod.metadata.annotation(DEFAULT_CONTAINER)
    main = annotation if annotation in names else next(iter(names), "")
    for status in _statuses(observed_pod.pod):
        if status.name == main and status.state is not None and status.state.running is not None:
            return [ContainerRun(observed_pod, main)]
    return []


def _trouble(observed_pod: ObservedPod, unwell_nodes: frozenset[str]) -> int:
    """0 for a pod that restarted or is not ready, 1 on a node in trouble, else 2."""
    statuses = _statuses(observed_pod.pod)
    if any(status.restart_count or not status.ready for status in statuses):
        return 0
    return 1 if observed_pod.pod.node in unwell_nodes else 2


def _statuses(pod: Pod) -> list[ContainerStatus]:
    status = pod.status
    if status is None:
        return []
    return [*(status.container_statuses or ()), *(status.init_container_statuses or ())]
