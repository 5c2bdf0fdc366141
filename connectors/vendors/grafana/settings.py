"""Settings of Grafana."""

from __future__ import annotations

from pydantic import SecretStr

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
