"""PostgreSQL: who blocks whom, what became slow, what fills up."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import DatabaseSettings


class PostgresqlSettings(DatabaseSettings):
    """PostgreSQL as a source of its own state: docs/connectors/postgresql.md."""

    port: int = Field(default=5432, ge=1, le=65535)
    """Its port."""
    database: str = Field(default="postgres", min_length=1, max_length=63)
    """The database to connect to. Dead rows and sizes of tables are read in this one alone."""
    statement_s: float = Field(default=5.0, gt=0, le=60)
    """Seconds after which one statement of ours is cancelled."""
    client_cert_file: Path | None = None
    """Client certificate (PEM), instead of a password."""
    client_key_file: Path | None = None
    """Its key."""
    replica: str | None = Field(default=None, pattern=r"^[^\s@?#;,]{1,255}$")
    """A replica's host. Its lag is read too, and sizes and ages are read there instead of on the
    primary."""
    replica_port: int | None = Field(default=None, ge=1, le=65535)
    """The replica's port. Unset: that of the primary."""
    sample_s: float = Field(default=5.0, ge=0, le=30)
    """Seconds between two readings of counters, whose difference is compared with all that the
    server counted before. 0: counters are not compared."""


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
