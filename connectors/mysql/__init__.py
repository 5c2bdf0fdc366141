"""MySQL and MariaDB: who blocks whom, what became slow, what fills up."""

from connectors.connector_type import ConnectorType, Listing
from connectors.mysql.settings import MysqlSettings

CONNECTOR = ConnectorType(
    name="mysql",
    settings=MysqlSettings,
    build="connectors.mysql.connector:build",
    kinds=("states",),
    docs="mysql.md",
    listing=Listing(
        title="MySQL, MariaDB",
        login="user and password",
        places="one server each",
        permissions="`PROCESS`, to read replication, `SELECT` on `performance_schema`",
        tested_against="a real MariaDB 10.11; MySQL itself is untested",
        also="locks, statements",
    ),
)
