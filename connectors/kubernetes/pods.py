"""States of pods and nodes: what ended how and when, what waits for what, and which conditions are
bad."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from connectors.kubernetes.answers import (
    ContainerStatus,
    KubernetesCondition,
    Node,
    Pod,
    Terminated,
)
from connectors.pagerduty.answers import moment
from connectors.vendor_text import short

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
class ObservedPods:
    """A pod of a service."""

    service: str
    pod: Pod


def pod_logs(seen: ObservedPods) -> list[tuple[Any, ...]]:
    """Rows of the logs table: how containers ended, what they wait for, and why a pod was thrown
    out."""
    pod, rows = seen.pod, []
    for one in _containers(pod):
        for state in (one.last_state, one.state):
            ended = state.terminated if state else None
            at = moment(ended.finished_at) if ended else None
            if ended is not None and at is not None and not _is_calm(ended):
                rows.append(_log(seen, at, _end(one, ended), ended.reason, one))
        waiting = one.state.waiting if one.state else None
        at = _since(pod, one)
        if (
            waiting is not None
            and waiting.reason
            and at is not None
            and waiting.reason not in _STARTING
        ):
            said = (
                f"container {one.name} waits: {waiting.reason}: {waiting.message or 'no message'}"
            )
            rows.append(_log(seen, at, said, waiting.reason, one))
    status = pod.status
    if status is not None and status.reason and status.phase == "Failed":
        ends = [
            c.last_transition_time
            for c in status.conditions or ()
            if c.type in ("DisruptionTarget", "Ready")
        ]
        at = next(
            (t for text in (*ends, status.start_time) if (t := moment(text))), pod.metadata.created
        )
        if at is not None:
            rows.append(
                _log(
                    seen,
                    at,
                    f"pod failed: {status.reason}: {status.message or ''}",
                    status.reason,
                    None,
                )
            )
    return rows


_STARTING = frozenset({"ContainerCreating", "PodInitializing"})
"""Reasons of a container that is being started as it should."""


def pod_states(seen: Sequence[ObservedPods]) -> list[tuple[Any, ...]]:
    """Rows of the monitors table: containers that wait or restarted, and pods that are not
    ready."""
    rows = []
    for one in seen:
        pod, name = one.pod, short(one.pod.metadata.name, 120)
        for container in _containers(pod):
            since, state = _since(pod, container), _state(container)
            if state and since is not None:
                rows.append(
                    (
                        f"pod {name}, container {short(container.name, 60)}",
                        one.service,
                        state,
                        since,
                        None,
                    )
                )
        unready = [
            c for c in (pod.status.conditions if pod.status else None) or () if _is_unready(c)
        ]
        for condition in unready:
            since = moment(condition.last_transition_time)
            if since is not None and (pod.status and pod.status.phase) != "Succeeded":
                state = _words(f"not {condition.type}", condition)
                rows.append((f"pod {name}", one.service, state, since, None))
    return rows


def node_states(node: Node, services: Iterable[str]) -> list[tuple[Any, ...]]:
    """Rows of the monitors table: the conditions of a node, the good ones as `ok`."""
    rows = []
    for condition in (node.status.conditions if node.status else None) or ():
        since = moment(condition.last_transition_time)
        if since is not None and _is_known(condition):
            state = (
                _words(f"{condition.type}={condition.status}", condition)
                if _is_bad(condition)
                else "ok"
            )
            name = f"node {short(node.metadata.name, 100)} {short(condition.type, 60)}"
            rows += [(name, service, state, since, None) for service in services]
    return rows


def node_logs(node: Node, services: Iterable[str]) -> list[tuple[Any, ...]]:
    """Rows of the logs table: conditions of a node that are bad, in the words of the event that
    tells of them."""
    rows = []
    for condition in (node.status.conditions if node.status else None) or ():
        at = moment(condition.last_transition_time)
        if at is None or not (_is_known(condition) and _is_bad(condition)):
            continue
        reason = EVENT_OF.get(condition.type, condition.reason or condition.type)
        said = {
            "reason": _letters(reason),
            "node": short(node.metadata.name, 100),
            "source": "kubernetes node",
        }
        text = short(
            f"node is {condition.type}={condition.status}: {condition.reason}: {condition.message}",
            400,
        )
        rows += [(at, service, text, "ERROR", None, json.dumps(said)) for service in services]
    return rows


def _containers(pod: Pod) -> list[ContainerStatus]:
    status = pod.status
    if status is None:
        return []
    return [*(status.init_container_statuses or ()), *(status.container_statuses or ())][
        :MOST_CONTAINERS
    ]


def _end(one: ContainerStatus, ended: Terminated) -> str:
    code = (
        f"exit code {ended.exit_code}" if ended.exit_code is not None else f"signal {ended.signal}"
    )
    said = (
        f"container {one.name} terminated: {ended.reason or 'no reason'}, "
        f"{code}, restarts so far: {one.restart_count}"
    )
    return f"{said}: {short(ended.message, 200)}" if ended.message else said


def _is_calm(ended: Terminated) -> bool:
    return ended.reason in CALM_ENDS and not ended.exit_code


def _state(one: ContainerStatus) -> str:
    waiting = one.state.waiting if one.state else None
    last = one.last_state.terminated if one.last_state else None
    parts = []
    if waiting is not None and waiting.reason and waiting.reason not in _STARTING:
        parts.append(f"waiting: {waiting.reason}")
    if last is not None and not _is_calm(last):
        parts.append(f"last run ended: {last.reason or 'no reason'}, exit code {last.exit_code}")
    if parts or one.restart_count:
        parts.append(f"{one.restart_count} restarts")
    return short("; ".join(parts), 200)


def _since(pod: Pod, one: ContainerStatus) -> datetime | None:
    """Since when a container is as it is: the end of its last run, else when its pod's readiness
    changed."""
    last = one.last_state.terminated if one.last_state else None
    ended = moment(last.finished_at) if last else None
    conditions = (pod.status.conditions if pod.status else None) or ()
    changed = (
        moment(c.last_transition_time) for c in conditions if c.type in ("ContainersReady", "Ready")
    )
    return ended or next((at for at in changed if at), pod.metadata.created)


def _is_unready(condition: KubernetesCondition) -> bool:
    return condition.type in ("PodScheduled", "Ready") and condition.status == "False"


def _is_bad(condition: KubernetesCondition) -> bool:
    """`Ready` is bad when it is not True, pressure and the like when they are (kubernetes.io, "Node
    Status")."""
    return condition.status != "True" if condition.type == "Ready" else condition.status == "True"


def _is_known(condition: KubernetesCondition) -> bool:
    return condition.type == "Ready" or BAD_WHEN_TRUE.fullmatch(condition.type) is not None


def _words(head: str, condition: KubernetesCondition) -> str:
    return short(": ".join(filter(None, (head, condition.reason, condition.message))), 200)


def _letters(text: str) -> str:
    return "".join(c for c in text if c.isascii() and c.isalpha())[:60]


def _log(
    seen: ObservedPods, at: datetime, text: str, reason: str | None, one: ContainerStatus | None
) -> tuple[Any, ...]:
    meta = seen.pod.metadata
    said = {
        "reason": _letters(reason or ""),
        "object": short(f"Pod/{meta.name}", 200),
        "namespace": short(meta.namespace or "", 100),
        "node": short(seen.pod.node or "", 100),
        "container": short(one.name, 60) if one else "",
        "source": "kubernetes pod state",
    }
    return (
        at,
        seen.service,
        short(text, 400),
        "ERROR",
        None,
        json.dumps({k: v for k, v in said.items() if v}),
    )
