"""MySQL and MariaDB: who blocks whom, what became slow, what fills up."""

from __future__ import annotations

from pydantic import Field

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import DatabaseSettings


class MysqlSettings(DatabaseSettings):
    """MySQL or MariaDB as a source of its own state: docs/connectors/mysql.md."""

    port: int = Field(default=3306, ge=1, le=65535)
    """Its port."""
    statement_s: float = Field(default=5.0, gt=0, le=60)
    """Seconds after which one statement of ours is cancelled."""
    sample_s: float = Field(default=5.0, ge=0, le=30)
    """Seconds between two readings of counters, whose difference is compared with all that the
    server counted before. 0: counters are not compared."""


CONNECTOR = ConnectorType(
    name="mysql",
    settings=MysqlSettings,
    build="faultline.connectors.vendors.mysql.connector:build",
    kinds=("states", "topology"),
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
