"""Buildkite: deployments and builds."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.buildkite.settings import BuildkiteSettings

CONNECTOR = ConnectorType(
    name="buildkite",
    settings=BuildkiteSettings,
    build="faultline.connectors.vendors.buildkite.connector:build",
    kinds=("changes",),
    docs="ci.md",
    listing=Listing(
        title="Buildkite",
        login="API access token",
        places="branches",
        permissions="`read_builds`",
        tested_against="a stand-in after its documentation",
    ),
)
