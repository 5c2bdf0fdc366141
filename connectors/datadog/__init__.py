"""Datadog: metrics, logs, traces, events and monitors."""

from connectors.connector_type import ConnectorType
from connectors.datadog.settings import DatadogSettings

CONNECTOR = ConnectorType(
    name="datadog",
    settings=DatadogSettings,
    build="connectors.datadog.connector:build",
    kinds=("metrics", "logs", "spans", "changes", "topology", "monitors"),
    docs="datadog.md",
)
