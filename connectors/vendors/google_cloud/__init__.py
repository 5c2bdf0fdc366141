"""Google Cloud: Monitoring, Logging, Trace, Error Reporting, and what changed in a project."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.google_cloud.settings import GoogleCloudSettings

CONNECTOR = ConnectorType(
    name="google_cloud",
    settings=GoogleCloudSettings,
    build="faultline.connectors.vendors.google_cloud.connector:build",
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
