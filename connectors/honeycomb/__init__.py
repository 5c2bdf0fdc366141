"""Honeycomb: golden signals by its query data API, and markers."""

from connectors.connector_type import ConnectorType, Listing
from connectors.honeycomb.settings import HoneycombSettings

CONNECTOR = ConnectorType(
    name="honeycomb",
    settings=HoneycombSettings,
    build="connectors.honeycomb.connector:build",
    kinds=("metrics", "changes"),
    docs="honeycomb.md",
    listing=Listing(
        title="Honeycomb",
        login="configuration key",
        places="environments and datasets",
        permissions="Run Queries",
        tested_against="the published specification",
    ),
)
