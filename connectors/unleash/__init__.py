"""Unleash: changes of feature flags."""

from connectors.connector_type import ConnectorType, Listing
from connectors.unleash.settings import UnleashSettings

CONNECTOR = ConnectorType(
    name="unleash",
    settings=UnleashSettings,
    build="connectors.unleash.connector:build",
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
