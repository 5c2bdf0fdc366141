"""Tempo: traces."""

from __future__ import annotations

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.settings_types import Url


class TempoSettings(SelfHostedSettings):
    """Tempo as a source of traces: docs/connectors/tempo.md."""

    url: Url | None = None
    """Base of the HTTP API. Unset: Tempo is not used."""
    grafana_source: str = "tempo"
    """The data source's uid in Grafana, for links. Used if `grafana.public_url` or `grafana.url` is
    set."""


CONNECTOR = ConnectorType(
    name="tempo",
    settings=TempoSettings,
    build="faultline.connectors.vendors.tempo.connector:build",
    kinds=("spans",),
    docs="tempo.md",
    listing=Listing(
        title="Tempo",
        login="as Prometheus",
        places="resource attributes",
        permissions="to query",
        tested_against="a stand-in after its documentation",
    ),
)
