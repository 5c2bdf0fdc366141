"""Jaeger: traces, and who calls whom."""

from connectors.connector_type import ConnectorType
from connectors.jaeger.settings import JaegerSettings

CONNECTOR = ConnectorType(
    name="jaeger",
    settings=JaegerSettings,
    build="connectors.jaeger.connector:build",
    kinds=("spans", "topology"),
    docs="jaeger.md",
)
