"""Honeycomb: golden signals by its query data API, and markers."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.honeycomb.settings import HoneycombSettings

CONNECTOR = ConnectorType(
    name="honeycomb",
    settings=HoneycombSettings,
    build="faultline.connectors.vendors.honeycomb.connector:build",
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
