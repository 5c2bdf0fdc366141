"""NATS: slow consumers, JetStream's limits, consumers that are behind."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.nats.settings import NatsSettings

CONNECTOR = ConnectorType(
    name="nats",
    settings=NatsSettings,
    build="faultline.connectors.vendors.nats.connector:build",
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
