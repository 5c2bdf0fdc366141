"""Tempo: traces."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.tempo.settings import TempoSettings

CONNECTOR = ConnectorType(
    name="tempo",
    settings=TempoSettings,
    build="faultline.connectors.vendors.tempo.connector:build",
    kinds=("spans",),
    docs="tempo.md",
    listing=Listing(
        title="Tempo",
        login="as Prometheus",
        places="resource attributes",
        permissions="to query",
        tested_against="a stand-in after its documentation",
    ),
)
