"""RabbitMQ: queues, consumers, alarms, partitions."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.rabbitmq.settings import RabbitmqSettings

CONNECTOR = ConnectorType(
    name="rabbitmq",
    settings=RabbitmqSettings,
    build="faultline.connectors.vendors.rabbitmq.connector:build",
    kinds=("states",),
    docs="rabbitmq.md",
    listing=Listing(
        title="RabbitMQ",
        login="user and password, token",
        places="one cluster each",
        permissions="the tag `monitoring`",
        tested_against="a real server",
    ),
)
