"""Settings of RabbitMQ."""

from __future__ import annotations

from connectors.database_settings import ServerIdentity
from connectors.self_hosted import SelfHostedSettings
from connectors.settings_types import Url


class RabbitmqSettings(SelfHostedSettings, ServerIdentity):
    """RabbitMQ as a source of its own state: docs/connectors/rabbitmq.md."""

    url: Url | None = None
    """Base of the management plugin, such as `https://mq.example.com:15671`. Unset: RabbitMQ is not
    asked."""
