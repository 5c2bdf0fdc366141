"""Nodes that are not ready, out of a resource, or closed to new pods; and zones of such nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from faultline.connectors.shared.rows.collection_builder import StateRow
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.kubernetes.answers import KubernetesCondition, Node
from faultline.connectors.vendors.kubernetes.pods import BAD_WHEN_TRUE
from faultline.connectors.vendors.pagerduty.answers import moment

ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
"""Well-known labels; the second until Kubernetes 1.17."""
CORDONED = "node.kubernetes.io/unschedulable"
USUAL_TAINTS = (
    "node.kubernetes.io/",
    "node-role.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
)
"""Taints that follow from a condition, or that a control plane has all its life."""
LEAST_OF_ZONE = 2
"""One node that is its zone says nothing of the zone."""


def node_facts(
    nodes: Sequence[Node], services: Mapping[str, Sequence[str]], waiting: Sequence[str]
) -> list[StateRow]:
    """Rows for nodes and zones. `services` run on a node, by its name; those that are `waiting` for
    a node are concerned by all that take none."""
    rows: list[StateRow] = []
    state_rows: dict[tuple[str, str], list[StateRow]] = defaultdict(list)
    size: dict[str, int] = defaultdict(int)
    for node in nodes:
        zone = _zone(node)
        size[zone] += 1
        for fact, field, value, since in _facts(node):
            row = StateRow(
                kind="Node",
                name=short(node.metadata.name, 100),
                fact=fact,
                place=zone or None,
                field=field,
                value=short(value, 200) or None,
                since=since,
            )
            state_rows[zone, fact].append(row)
            rows += _service_rows(row, (*services.get(node.metadata.name, ()), *waiting))
    for (zone, fact), state_row in sorted(state_rows.items()):
        nodes_there = {row.name for row in state_row}
        if zone and len(nodes_there) == size[zone] >= LEAST_OF_ZONE:
            rows += _zone_rows(zone, fact, state_row, services, waiting)
    return rows


def is_ready(node: Node) -> bool:
    """Whether its kubelet answers. A node without the condition counts as ready."""
    for condition in _conditions(node):
        if condition.type == "Ready":
            return condition.status == "True"
    return True


def _zone_rows(
    zone: str,
    fact: str,
    state_rows: Sequence[StateRow],
    services: Mapping[str, Sequence[str]],
    waiting: Sequence[str],
) -> list[StateRow]:
    concerned = list(waiting)
    for row in state_rows:
        concerned += services.get(row.name, ())
    times = [row.since for row in state_rows if row.since is not None]
    whole = state_rows[0]._replace(
        kind="Zone",
        name=zone,
        place=None,
        value=f"{len({row.name for row in state_rows})} nodes, every one that was looked at",
        # The zone is out since its last node went.
        since=max(times, default=None),
    )
    return _service_rows(whole._replace(fact=fact), concerned)


def _service_rows(row: StateRow, services: Iterable[str]) -> list[StateRow]:
    return [row._replace(service=service) for service in dict.fromkeys(services)]


def _zone(node: Node) -> str:
    labels = node.metadata.labels or {}
    for label in ZONE_LABELS:
        if labels.get(label):
            return short(labels[label], 100)
    return ""


def _facts(node: Node) -> Iterator[tuple[str, str, str, datetime | None]]:
    """(fact, field, value, since) of one node."""
    for condition in _conditions(node):
        fact = _of_condition(condition)
        if fact is not None:
            value = ": ".join(filter(None, (condition.reason, condition.message)))
            # This fact covers several conditions: say which one.
            if fact == "node_under_pressure":
                value = f"{condition.type}: {value}"
            yield fact, condition.type, value, moment(condition.last_transition_time)
    spec = node.spec
    if spec is None:
        return
    taints = [taint for taint in spec.taints or () if _closes(taint.key, taint.effect)]
    if spec.unschedulable or taints:
        times = [at for taint in taints if (at := moment(taint.time_added)) is not None]
        keys = ", ".join(taint.key for taint in taints) or CORDONED
        # Of a taint that a person put there only the node's last writing says when.
        yield "node_cordoned", "spec.taints", keys, max(times, default=node.metadata.written)


def _conditions(node: Node) -> Sequence[KubernetesCondition]:
    status = node.status
    return (status.conditions or ()) if status else ()


def _closes(key: str, effect: str | None) -> bool:
    """Whether somebody put this taint there to keep pods off."""
    if key == CORDONED:
        return True
    if effect not in ("NoSchedule", "NoExecute"):
        return False
    return not key.startswith(USUAL_TAINTS)


def _of_condition(condition: KubernetesCondition) -> str | None:
    if condition.type == "Ready":
        return None if condition.status == "True" else "node_not_ready"
    bad = BAD_WHEN_TRUE.fullmatch(condition.type) is not None and condition.status == "True"
    return "node_under_pressure" if bad else None
