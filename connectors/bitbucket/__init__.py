"""Bitbucket: deployments and builds."""

from connectors.bitbucket.settings import BitbucketSettings
from connectors.connector_type import ConnectorType, Listing

CONNECTOR = ConnectorType(
    name="bitbucket",
    settings=BitbucketSettings,
    build="connectors.bitbucket.connector:build",
    kinds=("changes",),
    docs="ci.md",
    listing=Listing(
        title="Bitbucket",
        login="access token",
        places="branches and environments",
        permissions="to read pipelines",
        tested_against="a stand-in after its documentation",
    ),
)
