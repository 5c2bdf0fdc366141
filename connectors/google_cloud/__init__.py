"""Google Cloud: Monitoring, Logging, Trace, Error Reporting, and what changed in a project."""

from connectors.connector_type import ConnectorType, Listing
from connectors.google_cloud.settings import GoogleCloudSettings

CONNECTOR = ConnectorType(
    name="google_cloud",
    settings=GoogleCloudSettings,
    build="connectors.google_cloud.connector:build",
    kinds=("metrics", "logs", "spans", "changes"),
    docs="google_cloud.md",
    listing=Listing(
        title="Google Cloud",
        login="service account, workload identity or federation",
        places="projects, regions and clusters",
        permissions="a role of eight permissions that read",
        tested_against="stand-ins after the API references",
        also="errors",
    ),
)
