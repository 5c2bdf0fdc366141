"""Settings of Statsig."""

from __future__ import annotations

from pydantic import SecretStr

from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Url


class StatsigSettings(ConnectorSettings):
    """Statsig as a source of flag changes: docs/connectors/feature-flags.md."""

    token: SecretStr | None = None
    """Secret. A Console API key that may only read. Unset: Statsig is not used."""
    url: Url = "https://statsigapi.net"
    """The Console API."""
