"""Alertmanager: active alerts and silences."""

from __future__ import annotations

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.settings_types import Names, Secrets, Url


class AlertmanagerSettings(SelfHostedSettings):
    """Alertmanager webhooks in, and its alerts and silences as evidence:
    docs/connectors/alertmanager.md."""

    webhook_tokens: Secrets = ()
    """Secret. Bearer tokens (or Basic `user:password`) that the receiver may present, separated by
    commas."""
    url: Url | None = None
    """Base of Alertmanager's address. Unset: Alertmanager is not used."""
    public_url: Url | None = None
    """Base of links, if people reach Alertmanager at another address than `url`."""
    service_labels: Names = ("service", "service_name", "app", "job")
    """Labels that may name an alert's service, in this order."""


CONNECTOR = ConnectorType(
    name="alertmanager",
    settings=AlertmanagerSettings,
    build="faultline.connectors.vendors.alertmanager.connector:build",
    kinds=("monitors",),
    docs="alertmanager.md",
    listing=Listing(
        title="Alertmanager",
        login="as Prometheus",
        places="labels of alerts",
        permissions="GET alone, by a proxy",
        tested_against="the published specification",
        also="silences",
    ),
)
