"""New Relic: metrics, logs, spans and changes by NRQL."""

from connectors.connector_type import ConnectorType
from connectors.new_relic.settings import NewRelicSettings

CONNECTOR = ConnectorType(
    name="new_relic",
    settings=NewRelicSettings,
    build="connectors.new_relic.connector:build",
    kinds=("metrics", "logs", "spans", "changes"),
    docs="new_relic.md",
)
