"""Datadog: metrics, logs, traces, events and monitors."""

from __future__ import annotations

import re

from pydantic import SecretStr, field_validator

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Secrets, Url
from faultline.connectors.vendors.datadog.links import APP_HOSTS


class DatadogSettings(ConnectorSettings):
    """Datadog webhooks in, and Datadog as a source of evidence: docs/connectors/datadog.md."""

    webhook_tokens: Secrets = ()
    """Secret. Bearer tokens (or Basic `user:password`) that the webhook may present, separated by
    commas."""
    api_key: SecretStr | None = None
    """Secret. An API key of the organisation."""
    app_key: SecretStr | None = None
    """Secret. An application key with read-only scopes, ideally of a service account."""
    site: str = "datadoghq.com"
    """The organisation's site, as in the address of its pages: `datadoghq.eu`, `us3.datadoghq.com`,
    ..."""
    env: str | None = None
    """The environment to query if the alert names none. Unset: all."""
    app_host: str | None = None
    """Host of links, for organisations with a custom subdomain such as `acme.datadoghq.com`."""
    api_url: Url | None = None
    """The API, for proxies and tests. Unset: the site's."""

    @field_validator("site")
    @classmethod
    def _is_a_site(cls, value: str) -> str:
        if value not in APP_HOSTS:
            raise ValueError(f"must be one of {', '.join(APP_HOSTS)}")
        return value

    @field_validator("app_host")
    @classmethod
    def _is_a_host(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?", value):
            raise ValueError("must be a host name, without https://")
        return value


CONNECTOR = ConnectorType(
    name="datadog",
    settings=DatadogSettings,
    build="faultline.connectors.vendors.datadog.connector:build",
    kinds=("metrics", "logs", "spans", "changes", "topology", "monitors"),
    docs="datadog.md",
    listing=Listing(
        title="Datadog",
        login="API and application key",
        places="tags",
        permissions="12 scopes that read",
        tested_against="the published specification",
        also="errors, GPUs",
    ),
)
