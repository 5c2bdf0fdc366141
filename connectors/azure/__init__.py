"""Azure Monitor: Log Analytics and Application Insights."""

from connectors.azure.settings import AzureMonitorSettings
from connectors.connector_type import ConnectorType

CONNECTOR = ConnectorType(
    name="azure_monitor",
    settings=AzureMonitorSettings,
    build="connectors.azure.connector:build",
    kinds=("metrics", "spans", "logs", "changes"),
    docs="azure_monitor.md",
)
