"""Grafana: alert rules, annotations, and Grafana Cloud's SLOs and incidents."""

from __future__ import annotations

from pydantic import SecretStr

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.settings_types import Names, Url


class GrafanaSettings(SelfHostedSettings):
    """Grafana's alert rules, annotations, SLOs, incidents, links: docs/connectors/grafana.md."""

    url: Url | None = None
    """Base of the HTTP API. Unset: Grafana is not used."""
    public_url: Url | None = None
    """Base of links, also of those for Loki and Tempo. Unset: `url`."""
    token: SecretStr | None = None
    """Secret. Token of a service account with the role Viewer."""
    change_tags: Names = (
        "deploy",
        "deployment",
        "release",
        "rollback",
        "config",
        "flag",
        "scale",
        "migration",
    )
    """Annotations with one of these tags are changes. Case matters."""
    cloud_apps: bool | None = None
    """Whether SLOs and incidents (IRM) are read. Unset: where `url` ends with `.grafana.net`."""


CONNECTOR = ConnectorType(
    name="grafana",
    settings=GrafanaSettings,
    build="faultline.connectors.vendors.grafana.connector:build",
    kinds=("monitors", "changes", "metrics", "alert"),
    docs="grafana.md",
    listing=Listing(
        title="Grafana",
        login="token of a service account",
        places="labels of rules",
        permissions="Viewer",
        tested_against="a stand-in after its documentation",
    ),
)
