"""Why a pod does not serve: its containers, its probes, its place and its volumes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from faultline.connectors.shared.rows.collection_builder import StateRow
from faultline.connectors.vendors.kubernetes.answers import (
    ContainerProbe,
    ContainerStatus,
    KubernetesCondition,
    KubernetesEvent,
    Pod,
    PodContainer,
    Terminated,
)
from faultline.connectors.vendors.kubernetes.restorers import resources_restorer
from faultline.connectors.vendors.kubernetes.state_rows import NamespaceContents, listed
from faultline.connectors.vendors.pagerduty.answers import moment

IMAGE_REASONS = frozenset(
    {
        "ImagePullBackOff",
        "ErrImagePull",
        "InvalidImageName",
        "ErrImageNeverPull",
        "RegistryUnavailable",
    }
)
"""Reasons of the kubelet (kubernetes/pkg/kubelet/images/types.go)."""
REFUSED_REASONS = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
)
BACK_OFF = timedelta(minutes=5)
QUICK_RESTARTS = 5
"""A container that ends at once waits 10, 20, 40 ... seconds, then five minutes each time
(kubernetes.io, "Pod Lifecycle", restart policy): after five restarts each took that long."""
SEVERAL = 3
"""Restarts from which on a container that runs just now counts as one that ends again and again."""
RECENTLY = timedelta(minutes=15)
"""And its last end lies at most so long ago: three rounds of the back-off."""
LONG_START = timedelta(minutes=2)
"""An init container that runs longer keeps its pod from starting: most copy files or check a port,
and end within seconds. Migrations may take longer, and then are what the pod waits for (our
choice)."""
NOT_THERE = re.compile(
    r"(?i)((?:config ?map|secret) \"?[\w.-]{1,253}\"? not found|couldn't find key [^\n]{1,200}"
    r"|references non-existent (?:config|secret) key[^\n]{0,200})"
)
NOT_SERVED = re.compile(r"(?i)statuscode: 404|connection refused")
NO_ROOM = re.compile(r"(?i)insufficient|taint|were unschedulable|too many pods|free ports")
NO_MATCH = re.compile(r"(?i)didn't match (?:pod's )?(?:node affinity|node selector|pod topology)")
MOST_CONTAINERS = 30


@dataclass(frozen=True)
class _Unwell:
    """One pod with its events."""

    contents: NamespaceContents
    service: str
    pod: Pod
    events: tuple[KubernetesEvent, ...]

    def row(
        self,
        fact: str,
        *,
        field: str,
        value: str | None = None,
        expected: str | None = None,
        since: datetime | None = None,
    ) -> StateRow:
        """A row about this pod."""
        return self.contents.row(
            "Pod",
            self.pod.metadata.name,
            fact,
            service=self.service,
            place=self.pod.node,
            field=field,
            value=value,
            expected=expected,
            since=since or _unready_since(self.pod),
            # Whose memory somebody sets, gets it set again.
            restored_by=(
                resources_restorer(self.pod.metadata) if fact == "killed_for_memory" else None
            ),
        )

    def saying(self, reason: str, words: str = "") -> list[KubernetesEvent]:
        """Its events of a reason whose text has these words, the latest first."""
        events = []
        for event in self.events:
            if event.reason == reason and words in event.text:
                events.append(event)
        return sorted(events, key=lambda event: str(event.last), reverse=True)


def pod_facts(contents: NamespaceContents) -> list[StateRow]:
    """Rows for every pod of the services in scope that does not serve as it should."""
    events: dict[str, list[KubernetesEvent]] = {}
    for event in contents.events:
        if event.about.kind == "Pod" and event.about.name:
            events.setdefault(event.about.name, []).append(event)
    rows: list[StateRow] = []
    for name, (service, pod) in contents.pods.items():
        unwell = _Unwell(contents, service, pod, tuple(events.get(name, ())))
        rows += _facts(unwell)
    return rows


def _facts(unwell: _Unwell) -> list[StateRow]:
    status = unwell.pod.status
    # A pod that has done its work is not meant to serve.
    if status is None or status.phase == "Succeeded":
        return []
    if status.reason == "Evicted":
        return [unwell.row("evicted", field="status.reason", value=status.message)]
    rows = [*_unplaced(unwell), *_unmounted(unwell), *_blocked(unwell)]
    probed = list(_probes(unwell))
    restarted_by_probe = any(row.fact != "readiness_failing" for row in probed)
    for container in _statuses(unwell.pod):
        row = _of_container(unwell, container, restarted_by_probe=restarted_by_probe)
        if row is not None:
            rows.append(row)
    rows += probed
    unready = _condition(unwell.pod, "Ready")
    # Last resort: each row above says better why the pod is not ready.
    if not rows and unready is not None and unready.status == "False" and unwell.pod.node:
        rows.append(unwell.row("readiness_failing", field="status.conditions", value=None))
    return rows


def _blocked(unwell: _Unwell) -> Iterator[StateRow]:
    """The init container that has been running for so long that its pod does not start."""
    container = blocking_container(unwell.pod)
    if container is None or container.state is None or container.state.running is None:
        return
    started = moment(container.state.running.get("startedAt"))
    if started is not None and unwell.contents.end - started >= LONG_START:
        value = f"its init container {container.name} has not ended"
        yield unwell.row("start_blocked", field="initContainerStatuses", value=value, since=started)


def blocking_container(pod: Pod) -> ContainerStatus | None:
    """The init container that runs, of a pod that has not started."""
    initialized = _condition(pod, "Initialized")
    if initialized is None or initialized.status != "False":
        return None
    sidecars = {
        container.name
        for container in (pod.spec.init_containers if pod.spec else None) or ()
        if container.restart_policy == "Always"
    }
    for status in (pod.status.init_container_statuses if pod.status else None) or ():
        runs = status.state is not None and status.state.running is not None
        if runs and status.name not in sidecars:
            return status
    return None


def _of_container(
    unwell: _Unwell, container: ContainerStatus, *, restarted_by_probe: bool
) -> StateRow | None:
    waiting = container.state.waiting if container.state else None
    reason = (waiting.reason if waiting else None) or ""
    message = (waiting.message if waiting else None) or ""
    if reason in IMAGE_REASONS:
        return unwell.row("image_unavailable", field="state.waiting", value=message or reason)
    if reason in REFUSED_REASONS:
        missing = NOT_THERE.search(message)
        if missing is not None:
            return unwell.row("reference_missing", field="state.waiting", value=missing[1])
        return unwell.row("container_refused", field="state.waiting", value=message or reason)
    ended = _last_end(container)
    if ended is None or not _ends_again(unwell, container, ended, waits=bool(reason)):
        return None
    if ended.reason == "OOMKilled":
        fact = "killed_for_memory"
    elif restarted_by_probe:
        # The kubelet ended it, for the reason that the probe's own fact tells.
        return None
    else:
        fact = "crash_loop"
    since = _crashing_since(unwell.pod, container, ended)
    return unwell.row(fact, field="lastState.terminated", value=_end(container, ended), since=since)


def _last_end(container: ContainerStatus) -> Terminated | None:
    # The present run first: if it has ended, the run before no longer matters.
    for state in (container.state, container.last_state):
        ended = state.terminated if state else None
        if ended is not None and not (ended.reason == "Completed" and not ended.exit_code):
            return ended
    return None


def _ends_again(
    unwell: _Unwell, container: ContainerStatus, ended: Terminated, *, waits: bool
) -> bool:
    """Whether it waits to be started again, ended for its memory, or ended several times."""
    at = moment(ended.finished_at)
    recent = at is None or unwell.contents.end - at <= RECENTLY
    if waits:
        return True
    return recent and (ended.reason == "OOMKilled" or container.restart_count >= SEVERAL)


def _crashing_since(pod: Pod, container: ContainerStatus, ended: Terminated) -> datetime | None:
    """At the latest when it began to end: when its pod was ready last, or else its last end less
    the waits between the ends."""
    at = moment(ended.finished_at)
    if at is None:
        return None
    unready = _condition(pod, "Ready")
    began = moment(unready.last_transition_time) if unready else None
    if began is not None and began < at:
        # A pod may have been unready for another reason long before: that many ends take no longer.
        ran = at - (moment(ended.started_at) or at)
        return max(began, at - container.restart_count * (BACK_OFF + ran))
    since = at - max(0, container.restart_count - QUICK_RESTARTS) * BACK_OFF
    created = pod.metadata.created
    # The waits are an estimate, which may reach back beyond the pod itself.
    return max(since, created) if created else since


def _end(container: ContainerStatus, ended: Terminated) -> str:
    code = f"exit code {ended.exit_code}" if ended.exit_code is not None else "no exit code"
    return f"{ended.reason or 'ended'}, {code}, {container.restart_count} restarts"


def _probes(unwell: _Unwell) -> Iterator[StateRow]:
    """What the kubelet says of failing probes of a pod that is not ready or was restarted."""
    # These two restart a container, so they count even if the pod is ready again.
    for words in ("Liveness probe", "Startup probe"):
        for event in unwell.saying("Unhealthy", words)[:1]:
            yield _probe_row(unwell, event, words, "liveness_failing")
    unready = _condition(unwell.pod, "Ready")
    if unready is None or unready.status != "False":
        return
    for event in unwell.saying("Unhealthy", "Readiness probe")[:1]:
        yield _probe_row(unwell, event, "Readiness probe", "readiness_failing")


def _probe_row(unwell: _Unwell, event: KubernetesEvent, words: str, fact: str) -> StateRow:
    mismatch = None
    if NOT_SERVED.search(event.text):
        mismatch = _unserved(unwell.pod, words)
    if mismatch is None:
        return unwell.row(fact, field=words, value=event.text, since=event.first)
    value, expected = mismatch
    return unwell.row(
        "probe_misconfigured", field=words, value=value, expected=expected, since=event.first
    )


def _unserved(pod: Pod, words: str) -> tuple[str, str] | None:
    """What a probe asks for, and what the container declares instead, where it runs and the two
    differ."""
    for container in (pod.spec.containers if pod.spec else None) or ():
        probes: Mapping[str, ContainerProbe | None] = {
            "Liveness probe": container.liveness_probe,
            "Startup probe": container.startup_probe,
            "Readiness probe": container.readiness_probe,
        }
        probe = probes[words]
        asks = (probe.http_get or probe.tcp_socket) if probe else None
        if asks is None or not _is_running(pod, container.name):
            continue
        declared = _ports(container)
        # A container that declares no port may listen on any.
        if declared and asks.port not in declared:
            return f"port {asks.port}", f"port {listed(declared)}"
    return None


def _ports(container: PodContainer) -> set[int | str]:
    """The ports that a container declares, by number and by name."""
    container_ports: set[int | str] = set()
    for port in container.ports or ():
        if port.container_port:
            container_ports.add(port.container_port)
        if port.name:
            container_ports.add(port.name)
    return container_ports


def declared_ports(pod: Pod) -> set[int | str]:
    """The ports that any of its containers declares."""
    ports: set[int | str] = set()
    for container in (pod.spec.containers if pod.spec else None) or ():
        ports |= _ports(container)
    return ports


def _is_running(pod: Pod, container: str) -> bool:
    for status in _statuses(pod):
        if status.name == container:
            return status.state is not None and status.state.running is not None
    return False


def _unplaced(unwell: _Unwell) -> Iterator[StateRow]:
    condition = _condition(unwell.pod, "PodScheduled")
    if condition is None or condition.status != "False":
        return
    message = condition.message or ""
    # Nodes that match and are only full may still take the pod.
    impossible = NO_MATCH.search(message) and not NO_ROOM.search(message)
    fact = "placement_impossible" if impossible else "unschedulable"
    since = moment(condition.last_transition_time)
    yield unwell.row(fact, field="PodScheduled", value=message, since=since)


def _unmounted(unwell: _Unwell) -> Iterator[StateRow]:
    """What keeps a pod from its volumes, while it has not started."""
    if (unwell.pod.status and unwell.pod.status.phase) != "Pending":
        return
    for reason in ("FailedMount", "FailedAttachVolume"):
        for event in unwell.saying(reason)[:1]:
            missing = NOT_THERE.search(event.text)
            fact = "reference_missing" if missing else "volume_not_attached"
            value = missing[1] if missing else event.text
            yield unwell.row(fact, field=reason, value=value, since=event.first)


def _statuses(pod: Pod) -> list[ContainerStatus]:
    status = pod.status
    if status is None:
        return []
    every = [*(status.init_container_statuses or ()), *(status.container_statuses or ())]
    return every[:MOST_CONTAINERS]


def _condition(pod: Pod, kind: str) -> KubernetesCondition | None:
    for condition in (pod.status.conditions if pod.status else None) or ():
        if condition.type == kind:
            return condition
    return None


def _unready_since(pod: Pod) -> datetime | None:
    condition = _condition(pod, "Ready")
    changed = None
    if condition is not None and condition.status != "True":
        changed = moment(condition.last_transition_time)
    return changed or pod.metadata.created
