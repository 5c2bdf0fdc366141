"""Bitbucket: deployments and builds."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.bitbucket.settings import BitbucketSettings

CONNECTOR = ConnectorType(
    name="bitbucket",
    settings=BitbucketSettings,
    build="faultline.connectors.vendors.bitbucket.connector:build",
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
