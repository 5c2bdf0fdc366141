"""Alertmanager: active alerts and silences."""

from connectors.alertmanager.settings import AlertmanagerSettings
from connectors.connector_type import ConnectorType, Listing

CONNECTOR = ConnectorType(
    name="alertmanager",
    settings=AlertmanagerSettings,
    build="connectors.alertmanager.connector:build",
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
