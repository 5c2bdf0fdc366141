"""Splunk Observability Cloud: golden signals of APM, alerts of detectors, and custom events."""

from __future__ import annotations

from pydantic import Field, SecretStr

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Names, Url


class SplunkObservabilitySettings(ConnectorSettings):
    """Splunk Observability Cloud (SignalFx) as a source of metrics, alerts and changes:
    docs/connectors/splunk_observability.md."""

    url: Url | None = None
    """The API of your realm, such as `https://api.us1.observability.splunkcloud.com`. Unset: it is
    not used."""
    token: SecretStr | None = None
    """Secret. An organization access token with the scope *API*. Without it it is not used."""
    environment: str | None = Field(default=None, pattern=r'^[^"\\*\x00-\x1f]{1,100}$')
    """The deployment environment whose services are read. Unset: all together."""
    change_types: Names = (
        "deploy",
        "deployment",
        "release",
        "rollback",
        "config",
        "flag",
        "scale",
        "migration",
    )
    """Custom events with one of these words in their type are changes."""


CONNECTOR = ConnectorType(
    name="splunk_observability",
    settings=SplunkObservabilitySettings,
    build="faultline.connectors.vendors.splunk_observability.connector:build",
    kinds=("metrics", "monitors", "changes"),
    docs="splunk_observability.md",
    listing=Listing(
        title="Splunk Observability Cloud",
        login="access token",
        places="organizations, environments",
        permissions="the API scope, role read_only",
        tested_against="a stand-in after its specification",
    ),
)
