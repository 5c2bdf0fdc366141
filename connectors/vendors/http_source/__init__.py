"""Any HTTP API with JSON answers, mapped to a table of evidence in the settings."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.http_source.settings import HttpSourceSettings

CONNECTOR = ConnectorType(
    name="http_source",
    settings=HttpSourceSettings,
    build="faultline.connectors.vendors.http_source.connector:build",
    kinds=("metrics", "logs", "changes", "states"),
    docs="http_source.md",
    listing=Listing(
        title="Any HTTP API that answers in JSON",
        login="as Prometheus",
        places="what the mapping names",
        permissions="to read what is asked for",
        tested_against="a real HTTP server",
    ),
)
