"""Sentry: issues, releases and suspect commits."""

from __future__ import annotations

from pydantic import SecretStr

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Names, Secrets, Url


class SentrySettings(ConnectorSettings):
    """Sentry webhooks in, and issues, events, releases and suspect commits as evidence:
    docs/connectors/sentry.md."""

    organization: str | None = None
    """The organization's slug. Unset: Sentry is not used."""
    base_url: Url = "https://sentry.io"
    """The server: `https://us.sentry.io`, `https://de.sentry.io`, or a self-hosted one."""
    environments: Names = ()
    """Environments that count, such as `production`. Unset: all."""
    token: SecretStr | None = None
    """Secret. Token of an internal integration, ideally read-only. Without it Sentry is not
    used."""
    webhook_secrets: Secrets = ()
    """Secret. Client secrets of the integrations that send webhooks. During a rotation several,
    separated by commas."""


CONNECTOR = ConnectorType(
    name="sentry",
    settings=SentrySettings,
    build="faultline.connectors.vendors.sentry.connector:build",
    kinds=("logs", "metrics", "changes"),
    docs="sentry.md",
    listing=Listing(
        title="Sentry",
        login="token of an integration",
        places="environments",
        permissions="`event:read`, `org:read`, `project:read`",
        tested_against="the published specification",
        also="stack traces",
    ),
)

ERROR_RATE = "error_rate"
"""The signal that an issue's events are counted as."""
