"""NATS: slow consumers, JetStream's limits, consumers that are behind."""

from __future__ import annotations

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import HttpServerSettings
from faultline.connectors.shared.settings.settings_types import Url


class NatsSettings(HttpServerSettings):
    """NATS as a source of its own state: docs/connectors/nats.md."""

    url: Url | None = None
    """Base of the monitoring endpoint, such as `http://nats.example.com:8222`. Unset: NATS is not
    asked."""


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
