"""Settings of Tempo."""

from __future__ import annotations

from pydantic import Field, SecretStr

from connectors.settings_types import Section, Url


class TempoSettings(Section):
    """Tempo as a source of traces: docs/connectors/tempo.md."""

    url: Url | None = None
    """Base of the HTTP API. Unset: Tempo is not asked."""
    token: SecretStr | None = None
    """Secret. Bearer token; with `username` the password of Basic authentication."""
    username: str | None = None
    """User name of Basic authentication, such as the instance's number in Grafana Cloud."""
    tenant: str | None = Field(default=None, pattern=r"^[!-~]{1,500}$")
    """Sent as `X-Scope-OrgID`, for servers with several tenants."""
    grafana_source: str = "tempo"
    """The data source's uid in Grafana, for links; used when `grafana.public_url` or `grafana.url`
    is set."""
