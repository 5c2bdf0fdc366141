"""Loki: logs."""

from __future__ import annotations

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
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


CONNECTOR = ConnectorType(
    name="loki",
    settings=LokiSettings,
    build="faultline.connectors.vendors.loki.connector:build",
    kinds=("logs", "metrics"),
    docs="loki.md",
    listing=Listing(
        title="Loki",
        login="as Prometheus",
        places="labels of streams",
        permissions="to query",
        tested_against="a stand-in after its documentation",
    ),
)
