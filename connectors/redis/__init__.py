"""Redis and Valkey: memory, evictions, clients, slow commands, replication."""

from connectors.connector_type import ConnectorType, Listing
from connectors.redis.settings import RedisSettings

CONNECTOR = ConnectorType(
    name="redis",
    settings=RedisSettings,
    build="connectors.redis.connector:build",
    kinds=("states",),
    docs="redis.md",
    listing=Listing(
        title="Redis, Valkey",
        login="user and password",
        places="one server each",
        permissions="`+info +slowlog\\|get`",
        tested_against="a real server",
        also="slow commands",
    ),
)
