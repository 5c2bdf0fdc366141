"""Settings of NATS."""

from __future__ import annotations

from faultline.connectors.shared.settings.database_settings import HttpServerSettings
from faultline.connectors.shared.settings.settings_types import Url


class NatsSettings(HttpServerSettings):
    """NATS as a source of its own state: docs/connectors/nats.md."""

    url: Url | None = None
    """Base of the monitoring endpoint, such as `http://nats.example.com:8222`. Unset: NATS is not
    asked."""
