"""Statsig: changes of gates, dynamic configs and experiments."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.statsig.settings import StatsigSettings

CONNECTOR = ConnectorType(
    name="statsig",
    settings=StatsigSettings,
    build="faultline.connectors.vendors.statsig.connector:build",
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
