"""Kubernetes: events, rollouts, pods, nodes, and what routes to them or limits them."""

from connectors.connector_type import ConnectorType
from connectors.kubernetes.settings import KubernetesSettings

CONNECTOR = ConnectorType(
    name="kubernetes",
    settings=KubernetesSettings,
    build="connectors.kubernetes.connector:build",
    kinds=("logs", "changes", "monitors", "states", "topology"),
    docs="kubernetes.md",
)
