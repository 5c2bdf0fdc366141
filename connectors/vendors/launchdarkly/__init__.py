"""LaunchDarkly: changes of feature flags."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.launchdarkly.settings import LaunchDarklySettings

CONNECTOR = ConnectorType(
    name="launchdarkly",
    settings=LaunchDarklySettings,
    build="faultline.connectors.vendors.launchdarkly.connector:build",
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
