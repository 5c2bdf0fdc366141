"""Settings of Tempo."""

from __future__ import annotations

from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.settings_types import Url


class TempoSettings(SelfHostedSettings):
    """Tempo as a source of traces: docs/connectors/tempo.md."""

    url: Url | None = None
    """Base of the HTTP API. Unset: Tempo is not used."""
    grafana_source: str = "tempo"
    """The data source's uid in Grafana, for links. Used if `grafana.public_url` or `grafana.url` is
    set."""
