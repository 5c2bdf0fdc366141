"""Loki: logs."""

from connectors.connector_type import ConnectorType, Listing
from connectors.loki.settings import LokiSettings

CONNECTOR = ConnectorType(
    name="loki",
    settings=LokiSettings,
    build="connectors.loki.connector:build",
    kinds=("logs", "metrics"),
    docs="loki.md",
    listing=Listing(
        title="Loki",
        login="as Prometheus",
        places="labels of streams",
        permissions="to query",
        tested_against="a stand-in after its documentation",
    ),
)
