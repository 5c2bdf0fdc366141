"""Kubernetes: events, rollouts, pods and nodes."""

from connectors.connector_type import ConnectorType
from connectors.kubernetes.settings import KubernetesSettings

CONNECTOR = ConnectorType(
    name="kubernetes",
    settings=KubernetesSettings,
    build="connectors.kubernetes.connector:build",
    kinds=("logs", "changes", "monitors"),
    docs="kubernetes.md",
)
