"""Labels that name a part of a service: a version of it, or where some of its instances run."""

from __future__ import annotations

from collections.abc import Mapping

from faultline.analysis.kinds.place_names import PLACE_LABELS

PART_LABELS: Mapping[str, tuple[str, ...]] = {
    "version": (
        "version",
        "service_version",
        "service.version",
        "destination_version",
        "app_kubernetes_io_version",
    ),
    "cluster": PLACE_LABELS["cluster"],
    "region": PLACE_LABELS["region"],
    "tenant": ("tenant", "tenant_id"),
    "pod": ("pod", "pod_name", "k8s_pod_name", "k8s.pod.name", "kubernetes_pod_name"),
    "instance": ("instance",),
    "node": (
        "node",
        "k8s_node_name",
        "k8s.node.name",
        "kubernetes_node",
        "host",
        "host_name",
        "host.name",
    ),
    "zone": (
        "zone",
        "availability_zone",
        "availability-zone",
        "cloud.availability_zone",
        "topology_kubernetes_io_zone",
    ),
}
"""By what they say, the most telling first: a service that fails in only one version is
identified by that, and one pod of it before the node it happens to run on. Prometheus' own label
`instance` is whatever it scrapes."""


def parts_of(labels: Mapping[str, str]) -> dict[str, str]:
    """The parts that a series is of, by the name of their kind."""
    values_by_kind = {}
    for kind, names in PART_LABELS.items():
        value = next((labels[name] for name in names if labels.get(name)), None)
        if value is not None:
            values_by_kind[kind] = value
    return values_by_kind
