"""PostgreSQL: who blocks whom, what became slow, what fills up."""

from connectors.connector_type import ConnectorType, Listing
from connectors.postgresql.settings import PostgresqlSettings

CONNECTOR = ConnectorType(
    name="postgresql",
    settings=PostgresqlSettings,
    build="connectors.postgresql.connector:build",
    kinds=("states", "changes", "topology"),
    docs="postgresql.md",
    listing=Listing(
        title="PostgreSQL",
        login="password, client certificate",
        places="one server each",
        permissions="`pg_monitor`",
        tested_against="a real server",
        also="locks, statements",
    ),
)
