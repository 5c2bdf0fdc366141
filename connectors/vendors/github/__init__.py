"""GitHub: deployments, merges and code."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.github.settings import GitHubSettings

CONNECTOR = ConnectorType(
    name="github",
    settings=GitHubSettings,
    build="faultline.connectors.vendors.github.connector:build",
    kinds=("changes",),
    docs="github.md",
    listing=Listing(
        title="GitHub",
        login="fine-grained token or app",
        places="environments of deployments",
        permissions="5 permissions that read",
        tested_against="the published specification",
        also="code of a stack trace",
    ),
)
