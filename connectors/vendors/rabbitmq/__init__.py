"""RabbitMQ: queues, consumers, alarms, partitions."""

from __future__ import annotations

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import HttpServerSettings
from faultline.connectors.shared.settings.settings_types import Url


class RabbitmqSettings(HttpServerSettings):
    """RabbitMQ as a source of its own state: docs/connectors/rabbitmq.md."""

    url: Url | None = None
    """Base of the management plugin, such as `https://mq.example.com:15671`. Unset: RabbitMQ is not
    asked."""


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
