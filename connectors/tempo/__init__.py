"""Tempo: traces."""

from connectors.connector_type import ConnectorType
from connectors.tempo.settings import TempoSettings

CONNECTOR = ConnectorType(
    name="tempo",
    settings=TempoSettings,
    build="connectors.tempo.connector:build",
    kinds=("spans",),
    docs="tempo.md",
)
