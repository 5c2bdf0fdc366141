"""Redis and Valkey: memory, evictions, clients, slow commands, replication."""

from connectors.connector_type import ConnectorType
from connectors.redis.settings import RedisSettings

CONNECTOR = ConnectorType(
    name="redis",
    settings=RedisSettings,
    build="connectors.redis.connector:build",
    kinds=("states",),
    docs="redis.md",
)
