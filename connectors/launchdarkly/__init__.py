"""LaunchDarkly: changes of feature flags."""

from connectors.connector_type import ConnectorType, Listing
from connectors.launchdarkly.settings import LaunchDarklySettings

CONNECTOR = ConnectorType(
    name="launchdarkly",
    settings=LaunchDarklySettings,
    build="connectors.launchdarkly.connector:build",
    kinds=("changes",),
    docs="feature-flags.md",
    listing=Listing(
        title="LaunchDarkly",
        login="access token",
        places="projects and environments",
        permissions="Reader",
        tested_against="a stand-in after the published specification",
    ),
)
