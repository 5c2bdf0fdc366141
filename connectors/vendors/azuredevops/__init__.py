"""Azure DevOps: deployments and builds."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.azuredevops.settings import AzureDevOpsSettings

CONNECTOR = ConnectorType(
    name="azuredevops",
    settings=AzureDevOpsSettings,
    build="faultline.connectors.vendors.azuredevops.connector:build",
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
