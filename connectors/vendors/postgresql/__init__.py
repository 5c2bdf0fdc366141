"""PostgreSQL: who blocks whom, what became slow, what fills up."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.postgresql.settings import PostgresqlSettings

CONNECTOR = ConnectorType(
    name="postgresql",
    settings=PostgresqlSettings,
    build="faultline.connectors.vendors.postgresql.connector:build",
    kinds=("states", "changes", "topology"),
    docs="postgresql.md",
    listing=Listing(
        title="PostgreSQL",
        login="password or client certificate",
        places="one server each",
        permissions="`pg_monitor`",
        tested_against="real PostgreSQL 15 and 18",
        also="who blocks whom",
    ),
)
