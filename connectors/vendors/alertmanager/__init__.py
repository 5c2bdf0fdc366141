"""Alertmanager: active alerts and silences."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.alertmanager.settings import AlertmanagerSettings

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
