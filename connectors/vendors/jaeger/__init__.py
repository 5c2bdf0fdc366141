"""Jaeger: traces, and the calls between services."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.jaeger.settings import JaegerSettings

CONNECTOR = ConnectorType(
    name="jaeger",
    settings=JaegerSettings,
    build="faultline.connectors.vendors.jaeger.connector:build",
    kinds=("spans", "topology"),
    docs="jaeger.md",
    listing=Listing(
        title="Jaeger",
        login="as Prometheus",
        places="tags of processes",
        permissions="none exist",
        tested_against="the published specification",
    ),
)
