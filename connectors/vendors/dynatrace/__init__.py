"""Dynatrace: golden signals, problems, deployments and configuration events."""

from __future__ import annotations

from pydantic import SecretStr

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Url


class DynatraceSettings(ConnectorSettings):
    """An environment of Dynatrace as a source of metrics, problems and changes:
    docs/connectors/dynatrace.md."""

    url: Url | None = None
    """The environment, such as `https://abc12345.live.dynatrace.com`, or
    `https://HOST/e/ENVIRONMENT` of Dynatrace Managed. Unset: Dynatrace is not used."""
    token: SecretStr | None = None
    """Secret. An access token (`dt0c01...`). Without it Dynatrace is not used."""


CONNECTOR = ConnectorType(
    name="dynatrace",
    settings=DynatraceSettings,
    build="faultline.connectors.vendors.dynatrace.connector:build",
    kinds=("metrics", "monitors", "changes"),
    docs="dynatrace.md",
    listing=Listing(
        title="Dynatrace",
        login="access token",
        places="environments",
        permissions="4 scopes that read",
        tested_against="a stand-in after its documentation",
    ),
)
