"""Buildkite: deployments and builds."""

from connectors.buildkite.settings import BuildkiteSettings
from connectors.connector_type import ConnectorType, Listing

CONNECTOR = ConnectorType(
    name="buildkite",
    settings=BuildkiteSettings,
    build="connectors.buildkite.connector:build",
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
