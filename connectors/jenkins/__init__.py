"""Jenkins: deployments and builds."""

from connectors.connector_type import ConnectorType, Listing
from connectors.jenkins.settings import JenkinsSettings

CONNECTOR = ConnectorType(
    name="jenkins",
    settings=JenkinsSettings,
    build="connectors.jenkins.connector:build",
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
