"""Redis and Valkey: memory, evictions, clients, slow commands, replication."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.redis.settings import RedisSettings

CONNECTOR = ConnectorType(
    name="redis",
    settings=RedisSettings,
    build="faultline.connectors.vendors.redis.connector:build",
    kinds=("states",),
    docs="redis.md",
    listing=Listing(
        title="Redis, Valkey",
        login="password or client certificate",
        places="one server each",
        permissions="INFO and SLOWLOG GET, no keys",
        tested_against="a real Redis 6.2",
    ),
)
