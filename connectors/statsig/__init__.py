"""Statsig: changes of gates, dynamic configs and experiments."""

from connectors.connector_type import ConnectorType, Listing
from connectors.statsig.settings import StatsigSettings

CONNECTOR = ConnectorType(
    name="statsig",
    settings=StatsigSettings,
    build="connectors.statsig.connector:build",
    kinds=("changes",),
    docs="feature-flags.md",
    listing=Listing(
        title="Statsig",
        login="Console API key",
        places="none",
        permissions="a key that may only read",
        tested_against="a stand-in after the published specification",
    ),
)
