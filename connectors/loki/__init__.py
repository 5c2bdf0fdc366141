"""Loki: logs."""

from connectors.connector_type import ConnectorType
from connectors.loki.settings import LokiSettings

CONNECTOR = ConnectorType(
    name="loki",
    settings=LokiSettings,
    build="connectors.loki.connector:build",
    kinds=("logs", "metrics"),
    docs="loki.md",
)
