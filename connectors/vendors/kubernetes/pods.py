"""States of pods and nodes: what ended how and when, what waits for what, and which conditions are
bad."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faultline.connectors.shared.rows.collection_builder import LogRow
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.kubernetes.answers import (
    ContainerStatus,
    KubernetesCondition,
    Node,
    Pod,
    PodStatus,
    Terminated,
)
from faultline.connectors.vendors.pagerduty.answers import moment

EVENT_OF = {
    "Ready": "NodeNotReady",
    "MemoryPressure": "NodeHasInsufficientMemory",
    "DiskPressure": "NodeHasDiskPressure",
    "PIDPressure": "NodeHasInsufficientPID",
}
"""A node's condition to the reason of the event that tells of it
(kubernetes/pkg/kubelet/events)."""
BAD_WHEN_TRUE = re.compile(
    r"\w{1,40}Pressure|NetworkUnavailable|KernelDeadlock|ReadonlyFilesystem|Frequent\w{1,40}Restart"
)
"""Conditions of kubelets and of node-problem-detector (its configs); what else a cluster sets may
be good when True."""
CALM_ENDS = frozenset({"Completed"})
MOST_CONTAINERS = 30


@dataclass(frozen=True)
class ObservedPod:
    """A pod of a service."""

    service: str
    pod: Pod


def pod_logs(observed_pod: ObservedPod) -> list[LogRow]:
    """Rows of the logs table: how containers ended, what they wait for, and why a pod was thrown
    out."""
    rows: list[LogRow] = []
    for container in _containers(observed_pod.pod):
        rows += _ends(observed_pod, container)
        rows += _waits(observed_pod, container)
    return rows + _pod_failure(observed_pod)


def _ends(observed_pod: ObservedPod, container: ContainerStatus) -> Iterator[LogRow]:
    """How the last run of a container ended, and the present one where it has."""
    for state in (container.last_state, container.state):
        ended = state.terminated if state else None
        if ended is None or _is_calm(ended):
            continue
        at = moment(ended.finished_at)
        if at is not None:
            yield _log(observed_pod, at, _end(container, ended), ended.reason, container)


def _waits(observed_pod: ObservedPod, container: ContainerStatus) -> Iterator[LogRow]:
    waiting = container.state.waiting if container.state else None
    at = _since(observed_pod.pod, container)
    if waiting is None or not waiting.reason or waiting.reason in _STARTING or at is None:
        return
    text = f"container {container.name} waits: {waiting.reason}: {waiting.message or 'no message'}"
    yield _log(observed_pod, at, text, waiting.reason, container)


def _pod_failure(observed_pod: ObservedPod) -> list[LogRow]:
    status = observed_pod.pod.status
    if status is None or not status.reason or status.phase != "Failed":
        return []
    at = _failed_at(status) or observed_pod.pod.metadata.created
    if at is None:
        return []
    text = f"pod failed: {status.reason}: {status.message or ''}"
    return [_log(observed_pod, at, text, status.reason, None)]


def _failed_at(status: PodStatus) -> datetime | None:
    """When a pod was evicted or stopped being ready, else when it started."""
    times = [
        condition.last_transition_time
        for condition in status.conditions or ()
        if condition.type in ("DisruptionTarget", "Ready")
    ]
    for text in (*times, status.start_time):
        at = moment(text)
        if at is not None:
            return at
    return None


_STARTING = frozenset({"ContainerCreating", "PodInitializing"})
"""Reasons of a container that is being started as it should."""


def pod_states(observed_pods: Sequence[ObservedPod]) -> list[tuple[Any, ...]]:
    """Rows of the monitors table: containers that wait or restarted, and pods that are not
    ready."""
    rows: list[tuple[Any, ...]] = []
    for observed_pod in observed_pods:
        name = f"pod {short(observed_pod.pod.metadata.name, 120)}"
        for container in _containers(observed_pod.pod):
            since = _since(observed_pod.pod, container)
            state = _state(container)
            if state and since is not None:
                monitor = f"{name}, container {short(container.name, 60)}"
                rows.append((monitor, observed_pod.service, state, since, None))
        for condition in _unready(observed_pod.pod):
            since = moment(condition.last_transition_time)
            if since is not None:
                state = _words(f"not {condition.type}", condition)
                rows.append((name, observed_pod.service, state, since, None))
    return rows


def _unready(pod: Pod) -> list[KubernetesCondition]:
    """Why a pod is not ready; a pod that has done its work is not meant to be."""
    if pod.status is None or pod.status.phase == "Succeeded":
        return []
    conditions = [c for c in pod.status.conditions or () if c.status == "False"]
    return [c for c in conditions if c.type in ("PodScheduled", "Ready")]


def node_states(node: Node, services: Iterable[str]) -> list[tuple[Any, ...]]:
    """Rows of the monitors table: the conditions of a node, the good ones as `ok`."""
    rows = []
    for condition in (node.status.conditions if node.status else None) or ():
        since = moment(condition.last_transition_time)
        if since is not None and _has_health_type(condition):
            # A good condition is a row as well: it shows since when.
            state = "ok"
            if _is_bad(condition):
                state = _words(f"{condition.type}={condition.status}", condition)
            name = f"node {short(node.metadata.name, 100)} {short(condition.type, 60)}"
            rows += [(name, service, state, since, None) for service in services]
    return rows


def node_logs(node: Node, services: Iterable[str]) -> list[LogRow]:
    """Rows of the logs table: conditions of a node that are bad, in the words of the event that
    tells of them."""
    rows = []
    for condition in (node.status.conditions if node.status else None) or ():
        at = moment(condition.last_transition_time)
        if at is None or not (_has_health_type(condition) and _is_bad(condition)):
            continue
        # Named as in the event, which may have expired by now.
        reason = EVENT_OF.get(condition.type, condition.reason or condition.type)
        fields = {
            "reason": _letters(reason),
            "node": short(node.metadata.name, 100),
            "source": "kubernetes node",
        }
        text = short(
            f"node is {condition.type}={condition.status}: {condition.reason}: {condition.message}",
            400,
        )
        attributes = json.dumps(fields)
        rows += [LogRow(at, service, text, "ERROR", None, attributes) for service in services]
    return rows


def _containers(pod: Pod) -> list[ContainerStatus]:
    status = pod.status
    if status is None:
        return []
    every = [*(status.init_container_statuses or ()), *(status.container_statuses or ())]
    return every[:MOST_CONTAINERS]


def _end(container: ContainerStatus, ended: Terminated) -> str:
    code = f"signal {ended.signal}"
    if ended.exit_code is not None:
        code = f"exit code {ended.exit_code}"
    phrase = (
        f"container {container.name} terminated: {ended.reason or 'no reason'}, "
        f"{code}, restarts so far: {container.restart_count}"
    )
    return f"{phrase}: {short(ended.message, 200)}" if ended.message else phrase


def _is_calm(ended: Terminated) -> bool:
    # `Completed` with an exit code is a failure all the same.
    return ended.reason in CALM_ENDS and not ended.exit_code


def _state(container: ContainerStatus) -> str:
    waiting = container.state.waiting if container.state else None
    last = container.last_state.terminated if container.last_state else None
    parts = []
    if waiting is not None and waiting.reason and waiting.reason not in _STARTING:
        parts.append(f"waiting: {waiting.reason}")
    if last is not None and not _is_calm(last):
        parts.append(f"last run ended: {last.reason or 'no reason'}, exit code {last.exit_code}")
    # A container that runs again still shows that it restarted.
    if parts or container.restart_count:
        parts.append(f"{container.restart_count} restarts")
    return short("; ".join(parts), 200)


def _since(pod: Pod, container: ContainerStatus) -> datetime | None:
    """Since when a container is as it is: the end of its last run, else when its pod's readiness
    changed."""
    last = container.last_state.terminated if container.last_state else None
    ended = moment(last.finished_at) if last else None
    if ended is not None:
        return ended
    for condition in (pod.status.conditions if pod.status else None) or ():
        if condition.type in ("ContainersReady", "Ready"):
            changed = moment(condition.last_transition_time)
            if changed is not None:
                return changed
    return pod.metadata.created


def _is_bad(condition: KubernetesCondition) -> bool:
    """`Ready` is bad when it is not True, pressure and the like when they are (kubernetes.io, "Node
    Status")."""
    is_true = condition.status == "True"
    return not is_true if condition.type == "Ready" else is_true


def _has_health_type(condition: KubernetesCondition) -> bool:
    return condition.type == "Ready" or BAD_WHEN_TRUE.fullmatch(condition.type) is not None


def _words(head: str, condition: KubernetesCondition) -> str:
    parts = [part for part in (head, condition.reason, condition.message) if part]
    return short(": ".join(parts), 200)


def _letters(text: str) -> str:
    # A reason is one CamelCase word. Anything else in it is foreign text.
    return "".join(c for c in text if c.isascii() and c.isalpha())[:60]


def _log(
    observed_pod: ObservedPod,
    at: datetime,
    text: str,
    reason: str | None,
    container: ContainerStatus | None,
) -> LogRow:
    meta = observed_pod.pod.metadata
    fields = {
        "reason": _letters(reason or ""),
        "object": short(f"Pod/{meta.name}", 200),
        "namespace": short(meta.namespace or "", 100),
        "node": short(observed_pod.pod.node or "", 100),
        "container": short(container.name, 60) if container else "",
        "source": "kubernetes pod state",
    }
    attributes = json.dumps({name: value for name, value in fields.items() if value})
    return LogRow(at, observed_pod.service, short(text, 400), "ERROR", None, attributes)
