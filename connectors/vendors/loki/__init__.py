"""Loki: logs."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.loki.settings import LokiSettings

CONNECTOR = ConnectorType(
    name="loki",
    settings=LokiSettings,
    build="faultline.connectors.vendors.loki.connector:build",
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
