"""Settings of Loki."""

from __future__ import annotations

from pydantic import Field, SecretStr

from connectors.settings_types import Names, Section, Url


class LokiSettings(Section):
    """Loki as a source of logs: docs/connectors/loki.md."""

    url: Url | None = None
    """Base of the HTTP API. Unset: Loki is not asked."""
    token: SecretStr | None = None
    """Secret. Bearer token; with `username` the password of Basic authentication."""
    username: str | None = None
    """User name of Basic authentication, such as the instance's number in Grafana Cloud."""
    tenant: str | None = Field(default=None, pattern=r"^[!-~]{1,500}$")
    """Sent as `X-Scope-OrgID`, for servers with several tenants."""
    service_labels: Names = ("service_name", "app", "job")
    """Labels that may name a service, the first that knows it is used."""
    grafana_source: str = "loki"
    """The data source's uid in Grafana, for links; used when `grafana.public_url` or `grafana.url`
    is set."""
