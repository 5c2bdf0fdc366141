"""MySQL and MariaDB: who blocks whom, what became slow, what fills up."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.mysql.settings import MysqlSettings

CONNECTOR = ConnectorType(
    name="mysql",
    settings=MysqlSettings,
    build="faultline.connectors.vendors.mysql.connector:build",
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
