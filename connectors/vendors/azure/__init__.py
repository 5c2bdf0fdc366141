"""Azure Monitor: Log Analytics and Application Insights."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.azure.settings import AzureMonitorSettings

CONNECTOR = ConnectorType(
    name="azure_monitor",
    settings=AzureMonitorSettings,
    build="faultline.connectors.vendors.azure.connector:build",
    kinds=("metrics", "spans", "logs", "changes"),
    docs="azure_monitor.md",
    listing=Listing(
        title="Azure Monitor",
        login="managed or workload identity, client secret",
        places="workspaces and resources",
        permissions="Log Analytics Data Reader, Monitoring Reader",
        tested_against="the published specification",
    ),
)
