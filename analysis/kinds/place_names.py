"""What vendors call the environment, the cluster and the region that something runs in."""

from __future__ import annotations

from collections.abc import Mapping

PLACE_LABELS: Mapping[str, tuple[str, ...]] = {
    "environment": (
        "environment",
        "env",
        "deployment_environment_name",
        "deployment_environment",
        "deployment.environment.name",
        "deployment.environment",
        "stage",
    ),
    "cluster": (
        "cluster",
        "kube_cluster_name",
        "k8s_cluster",
        "k8s_cluster_name",
        "k8s.cluster.name",
        "cluster_name",
        "kubernetes_cluster",
    ),
    "region": ("region", "aws_region", "cloud_region", "cloud.region"),
}
"""Labels by what they say: Prometheus and Kubernetes, Datadog's unified tagging, OpenTelemetry."""

NAMESPACE_LABELS = (
    "namespace",
    "exported_namespace",
    "kube_namespace",
    "kubernetes_namespace",
    "k8s_namespace_name",
    "k8s.namespace.name",
)
"""What vendors call a namespace of Kubernetes. It is apart from the places above: what a service
calls may be in another namespace, and not in another environment."""


MESH_NAMESPACES = ("destination_workload_namespace", "destination_service_namespace")
"""Istio's labels for the namespace of who answers."""


def same_place_labels(label: str) -> tuple[str, ...]:
    """The labels that say the same as this one, itself included."""
    for names in PLACE_LABELS.values():
        if label in names:
            return names
    return (label,)


def place_in(labels: Mapping[str, str]) -> dict[str, str]:
    """Environment, cluster and region among these labels, each under the name of its kind."""
    places = {}
    for kind, names in PLACE_LABELS.items():
        for name in names:
            if labels.get(name):
                places[kind] = labels[name]
                break
    return places


def namespace_in(labels: Mapping[str, str]) -> str:
    """The namespace that labels of a series name; "" without one. Prometheus renames that of the
    measured object where the scrape has its own (`honor_labels`)."""
    usual = ("exported_namespace", *NAMESPACE_LABELS)
    return next((labels[label] for label in usual if labels.get(label)), "")


def object_namespace(labels: Mapping[str, str]) -> str:
    """The same, also where a mesh names it."""
    of_mesh = (labels[label] for label in MESH_NAMESPACES if labels.get(label))
    return namespace_in(labels) or next(of_mesh, "")


def job_namespace(job: str) -> str:
    """The namespace in front of a scrape job's name, as PodMonitors and OpenTelemetry put it there;
    "" without one."""
    return job.rpartition("/")[0]


def place_identity(labels: Mapping[str, str]) -> tuple[str, ...]:
    """What tells equal alerts of two places apart; empty where the labels name no place."""
    namespace = object_namespace(labels) or job_namespace(labels.get("job", ""))
    places = {"namespace": namespace, **place_in(labels)}
    return tuple(f"{kind}={name}" for kind, name in sorted(places.items()) if name)
