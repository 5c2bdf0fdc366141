"""Prometheus: metrics, alerts, GPUs, and what lies beneath services."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.prometheus.settings import PrometheusSettings

CONNECTOR = ConnectorType(
    name="prometheus",
    settings=PrometheusSettings,
    build="faultline.connectors.vendors.prometheus.connector:build",
    kinds=("metrics", "monitors", "states", "topology"),
    docs="prometheus.md",
    listing=Listing(
        title="Prometheus",
        login="bearer, Basic, client certificate, AWS, Google, Azure",
        places="labels of series and of targets",
        permissions="to query",
        tested_against="a real VictoriaMetrics; Prometheus' published specification",
        also="GPUs",
    ),
)
