"""Jenkins: deployments and builds."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.jenkins.settings import JenkinsSettings

CONNECTOR = ConnectorType(
    name="jenkins",
    settings=JenkinsSettings,
    build="faultline.connectors.vendors.jenkins.connector:build",
    kinds=("changes",),
    docs="ci.md",
    listing=Listing(
        title="Jenkins",
        login="API token of a user",
        places="none",
        permissions="Overall/Read, Job/Read",
        tested_against="a stand-in after the published shapes",
    ),
)
