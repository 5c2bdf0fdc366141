"""Redis and Valkey: memory, evictions, clients, slow commands, replication."""

from __future__ import annotations

from pydantic import Field

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import DatabaseSettings


class RedisSettings(DatabaseSettings):
    """Redis or Valkey as a source of its own state: docs/connectors/redis.md."""

    port: int = Field(default=6379, ge=1, le=65535)
    """Its port."""
    sample_s: float = Field(default=5.0, ge=0, le=30)
    """Seconds between two readings of counters. 0: counters are not compared."""


CONNECTOR = ConnectorType(
    name="redis",
    settings=RedisSettings,
    build="faultline.connectors.vendors.redis.connector:build",
    kinds=("states", "topology"),
    docs="redis.md",
    listing=Listing(
        title="Redis, Valkey",
        login="password or client certificate",
        places="one server each",
        permissions="INFO, SLOWLOG GET and CLIENT LIST, no keys",
        tested_against="a real Redis 6.2",
    ),
)
