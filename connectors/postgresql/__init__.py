"""PostgreSQL: who blocks whom, what became slow, what fills up."""

from connectors.connector_type import ConnectorType
from connectors.postgresql.settings import PostgresqlSettings

CONNECTOR = ConnectorType(
    name="postgresql",
    settings=PostgresqlSettings,
    build="connectors.postgresql.connector:build",
    kinds=("states", "changes", "topology"),
    docs="postgresql.md",
)
