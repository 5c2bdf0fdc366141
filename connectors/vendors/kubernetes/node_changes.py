"""Node pools as changes: nodes that joined with other software than the older ones, and nodes that
left.

A node that joins with what all others run is not a change: the kubelet's events, which are log
lines, report it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.rows.collection_builder import ChangeRow
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.kubernetes.answers import KubernetesEvent, Node

POOL_LABELS = (
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
)
"""How Karpenter, EKS, GKE and AKS label a node with its pool (their documentation of labels)."""
TYPE_LABEL = "node.kubernetes.io/instance-type"
LEFT = frozenset({"RemovingNode", "DeletingNode"})
"""Reasons of the node lifecycle controllers' events when a node is taken out
(kubernetes/pkg/controller/nodelifecycle, k8s.io/cloud-provider/controllers/nodelifecycle)."""
MOST_NAMED = 3

Services = Mapping[str, Sequence[str]]
"""Our names of the services whose pods run, or ran, on a node, by its name."""


def joined_rows(
    nodes: Iterable[Node], services: Services, link: str | None, window: Window
) -> list[ChangeRow]:
    """Rows for nodes that joined in the window and run what no older node runs."""
    ordered = sorted(nodes, key=lambda node: (str(node.metadata.created), node.metadata.name))
    alike: dict[tuple[str, str], list[Node]] = defaultdict(list)
    for number, node in enumerate(ordered):
        at = node.metadata.created
        # Nodes that joined together are no yardstick for each other.
        older = [node for node in ordered[:number] if not _joined_in(node, window)]
        if at is None or not _joined_in(node, window) or not older:
            continue
        in_pool = [older_node for older_node in older if pool_of(older_node) == pool_of(node)]
        # A new pool has no older nodes: compare with all others.
        difference = _difference(in_pool or older, node)
        if difference:
            alike[pool_of(node), difference].append(node)
    rows = []
    for (pool, difference), new_nodes in alike.items():
        rows += _rows_of(pool, difference, new_nodes, services, link)
    return rows


def _rows_of(
    pool: str, difference: str, new_nodes: Sequence[Node], services: Services, link: str | None
) -> list[ChangeRow]:
    first = new_nodes[0].metadata.created
    assert first is not None
    names = [short(node.metadata.name, 80) for node in new_nodes]
    shown = ", ".join(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        shown += f" and {len(names) - MOST_NAMED} more"
    nodes = "New node" if len(names) == 1 else f"{len(names)} new nodes"
    where = f"node pool {short(pool, 60)}" if pool else "the cluster"
    title = short(f"{nodes} in {where}: {difference} ({shown})", 400)
    identity = short(f"nodes {pool} {first:%Y-%m-%d %H:%M:%S}", 200)
    concerned: dict[str, None] = {}
    for node in new_nodes:
        concerned.update(dict.fromkeys(services.get(node.metadata.name, ())))
    return [
        ChangeRow(first, service, "config", identity, title, link=link) for service in concerned
    ]


def left_rows(
    events: Iterable[KubernetesEvent], services: Services, window: Window
) -> list[ChangeRow]:
    """Rows for nodes that were taken out of the cluster while they ran pods in scope."""
    first: dict[str, datetime] = {}
    for event in events:
        at = event.first
        if event.reason not in LEFT or at is None or not window.start <= at <= window.end:
            continue
        name = event.about.name or ""
        # One removal makes several events: the first counts.
        first[name] = min(at, first.get(name, at))
    rows = []
    for name, at in first.items():
        identity = short(f"node {name} left", 200)
        title = f"Node {short(name, 100)} was removed from the cluster"
        for service in services.get(name, ()):
            rows.append(ChangeRow(at, service, "scale", identity, title))
    return rows


def pool_of(node: Node) -> str:
    """The pool that its labels name, "" without one."""
    labels = node.metadata.labels or {}
    for label in POOL_LABELS:
        if labels.get(label):
            return labels[label]
    return ""


def _joined_in(node: Node, window: Window) -> bool:
    at = node.metadata.created
    return at is not None and window.start <= at <= window.end


def _difference(older: Sequence[Node], node: Node) -> str:
    """What the node runs and none of the older ones does, with what the latest of those runs."""
    before = [_software(node) for node in older]
    parts = []
    for what, value in _software(node).items():
        older_values = [software[what] for software in before if what in software]
        if older_values and value not in older_values:
            parts.append(f"{what} {short(older_values[-1], 60)} -> {short(value, 60)}")
    return ", ".join(parts)


def _software(node: Node) -> dict[str, str]:
    info = node.status.node_info if node.status else None
    versions = {
        "kubelet": info.kubelet_version if info else None,
        "kernel": info.kernel_version if info else None,
        "container runtime": info.container_runtime_version if info else None,
        "image": info.os_image if info else None,
        "machine type": (node.metadata.labels or {}).get(TYPE_LABEL),
    }
    return {what: value for what, value in versions.items() if value}
