"""Tempo: traces."""

from connectors.connector_type import ConnectorType, Listing
from connectors.tempo.settings import TempoSettings

CONNECTOR = ConnectorType(
    name="tempo",
    settings=TempoSettings,
    build="connectors.tempo.connector:build",
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
