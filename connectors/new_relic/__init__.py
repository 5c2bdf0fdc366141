"""New Relic: metrics, logs, spans and changes by NRQL."""

from connectors.connector_type import ConnectorType, Listing
from connectors.new_relic.settings import NewRelicSettings

CONNECTOR = ConnectorType(
    name="new_relic",
    settings=NewRelicSettings,
    build="connectors.new_relic.connector:build",
    kinds=("metrics", "logs", "spans", "changes"),
    docs="new_relic.md",
    listing=Listing(
        title="New Relic",
        login="user key",
        places="accounts",
        permissions="a Basic user, Read only",
        tested_against="a stand-in after the documentation",
    ),
)
