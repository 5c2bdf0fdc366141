"""Where an alert is, under whatever names vendors give to an environment, a cluster, a region.

A service of one name often runs in several of them; added up, one's trouble is hidden by the
others' health. Zones, nodes and pods do not bound what is asked: their trouble may come from
elsewhere, and they are compared with each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from analysis.vocabulary import Alert

ALIKE: Mapping[str, tuple[str, ...]] = {
    "environment": (
        "environment", "env", "deployment_environment_name", "deployment_environment",
        "deployment.environment.name", "deployment.environment", "stage",
    ),
    "cluster": (
        "cluster", "cluster_name", "k8s_cluster_name", "k8s.cluster.name", "kube_cluster_name",
        "kubernetes_cluster",
    ),
    "region": ("region", "cloud_region", "cloud.region", "aws_region"),
}  # fmt: skip
"""Labels that say the same: OpenTelemetry's attributes (as they are, and as Prometheus has them),
kube-state-metrics', Datadog's and common ones."""


def place_of(alert: Alert) -> dict[str, str]:
    """Environment, cluster and region of the alert, as far as its labels or its rule fix one."""
    given = dict(alert.labels)
    if alert.watches is not None:
        given |= alert.watches.place
    return place_in(given)


def place_in(given: Mapping[str, str]) -> dict[str, str]:
    """Environment, cluster and region among these labels, each under the name of its kind."""
    found = {}
    for kind, labels in ALIKE.items():
        for label in labels:
            if given.get(label):
                found[kind] = given[label]
                break
    return found


def place_labels(place: Mapping[str, str], known: Iterable[str]) -> dict[str, str]:
    """The same place in those of its labels that a source knows, with their values."""
    there = frozenset(known)
    found = {}
    for kind, value in place.items():
        for label in ALIKE[kind]:
            if label in there:
                found[label] = value
                break
    return found
