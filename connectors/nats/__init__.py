"""NATS: slow consumers, JetStream's limits, consumers that are behind."""

from connectors.connector_type import ConnectorType, Listing
from connectors.nats.settings import NatsSettings

CONNECTOR = ConnectorType(
    name="nats",
    settings=NatsSettings,
    build="connectors.nats.connector:build",
    kinds=("states",),
    docs="nats.md",
    listing=Listing(
        title="NATS",
        login="nothing, or a proxy's",
        places="one server each",
        permissions="none exist",
        tested_against="a real server",
    ),
)
