"""Grafana: alert rules and annotations."""

from connectors.connector_type import ConnectorType
from connectors.grafana.settings import GrafanaSettings

CONNECTOR = ConnectorType(
    name="grafana",
    settings=GrafanaSettings,
    build="connectors.grafana.connector:build",
    kinds=("monitors", "changes"),
    docs="grafana.md",
)
