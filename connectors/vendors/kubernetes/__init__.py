"""Kubernetes: events, rollouts, pods, nodes, and what routes to them or limits them."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.kubernetes.settings import KubernetesSettings

CONNECTOR = ConnectorType(
    name="kubernetes",
    settings=KubernetesSettings,
    build="faultline.connectors.vendors.kubernetes.connector:build",
    kinds=("logs", "changes", "monitors", "states", "topology"),
    docs="kubernetes.md",
    listing=Listing(
        title="Kubernetes",
        login="pod's service account, kubeconfig",
        places="clusters and namespaces",
        permissions="a role that lists, without secrets",
        tested_against="a stand-in after its API reference",
        also="state of objects",
    ),
)
