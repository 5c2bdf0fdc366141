"""Google Cloud: Monitoring, Logging, Trace, Error Reporting, and what changed in a project."""

from connectors.connector_type import ConnectorType
from connectors.google_cloud.settings import GoogleCloudSettings

CONNECTOR = ConnectorType(
    name="google_cloud",
    settings=GoogleCloudSettings,
    build="connectors.google_cloud.connector:build",
    kinds=("metrics", "logs", "spans", "changes"),
    docs="google_cloud.md",
)
