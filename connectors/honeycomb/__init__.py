"""Honeycomb: golden signals by its query data API, and markers."""

from connectors.connector_type import ConnectorType
from connectors.honeycomb.settings import HoneycombSettings

CONNECTOR = ConnectorType(
    name="honeycomb",
    settings=HoneycombSettings,
    build="connectors.honeycomb.connector:build",
    kinds=("metrics", "changes"),
    docs="honeycomb.md",
)
