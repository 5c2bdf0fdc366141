"""A recorded case as the source of evidence."""

from connectors.connector_type import ConnectorType
from connectors.recorded.settings import RecordedSettings

CONNECTOR = ConnectorType(
    name="recorded",
    settings=RecordedSettings,
    build="connectors.recorded.connector:build",
    kinds=("metrics", "logs", "spans", "changes", "topology", "monitors", "states", "traces"),
    docs="recorded.md",
    several=False,
)
