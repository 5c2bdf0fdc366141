"""Settings of RabbitMQ."""

from __future__ import annotations

from faultline.connectors.shared.settings.database_settings import HttpServerSettings
from faultline.connectors.shared.settings.settings_types import Url


class RabbitmqSettings(HttpServerSettings):
    """RabbitMQ as a source of its own state: docs/connectors/rabbitmq.md."""

    url: Url | None = None
    """Base of the management plugin, such as `https://mq.example.com:15671`. Unset: RabbitMQ is not
    asked."""
