"""New Relic: metrics, logs, spans and changes by NRQL."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.new_relic.settings import NewRelicSettings

CONNECTOR = ConnectorType(
    name="new_relic",
    settings=NewRelicSettings,
    build="faultline.connectors.vendors.new_relic.connector:build",
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
