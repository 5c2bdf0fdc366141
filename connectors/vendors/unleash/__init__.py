"""Unleash: changes of feature flags."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.unleash.settings import UnleashSettings

CONNECTOR = ConnectorType(
    name="unleash",
    settings=UnleashSettings,
    build="faultline.connectors.vendors.unleash.connector:build",
    kinds=("changes",),
    docs="feature-flags.md",
    listing=Listing(
        title="Unleash",
        login="token of a service account",
        places="projects and environments",
        permissions="the root role Viewer",
        tested_against="a stand-in after the published specification",
    ),
)
