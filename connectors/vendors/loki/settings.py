"""Settings of Loki."""

from __future__ import annotations

from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.settings_types import Names, Url


class LokiSettings(SelfHostedSettings):
    """Loki as a source of logs: docs/connectors/loki.md."""

    url: Url | None = None
    """Base of the HTTP API. Unset: Loki is not used."""
    service_labels: Names = ("service_name", "app", "job")
    """Labels that may name a service. The first that knows it is used."""
    grafana_source: str = "loki"
    """The data source's uid in Grafana, for links. Used if `grafana.public_url` or `grafana.url` is
    set."""
