"""Azure DevOps: deployments and builds."""

from connectors.azuredevops.settings import AzureDevOpsSettings
from connectors.connector_type import ConnectorType, Listing

CONNECTOR = ConnectorType(
    name="azuredevops",
    settings=AzureDevOpsSettings,
    build="connectors.azuredevops.connector:build",
    kinds=("changes",),
    docs="ci.md",
    listing=Listing(
        title="Azure DevOps",
        login="personal access token",
        places="branches and stages",
        permissions="Build (read), Release (read)",
        tested_against="a stand-in after the published specification",
    ),
)
