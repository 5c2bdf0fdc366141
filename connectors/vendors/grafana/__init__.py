"""Grafana: alert rules, annotations, and Grafana Cloud's SLOs and incidents."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.grafana.settings import GrafanaSettings

CONNECTOR = ConnectorType(
    name="grafana",
    settings=GrafanaSettings,
    build="faultline.connectors.vendors.grafana.connector:build",
    kinds=("monitors", "changes", "metrics", "alert"),
    docs="grafana.md",
    listing=Listing(
        title="Grafana",
        login="token of a service account",
        places="labels of rules",
        permissions="Viewer",
        tested_against="a stand-in after its documentation",
    ),
)
