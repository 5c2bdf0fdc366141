"""Alertmanager: active alerts and silences."""

from connectors.alertmanager.settings import AlertmanagerSettings
from connectors.connector_type import ConnectorType

CONNECTOR = ConnectorType(
    name="alertmanager",
    settings=AlertmanagerSettings,
    build="connectors.alertmanager.connector:build",
    kinds=("monitors",),
    docs="alertmanager.md",
)
