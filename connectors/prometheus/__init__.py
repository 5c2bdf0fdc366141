"""Prometheus: metrics, alerts, GPUs, and what lies beneath services."""

from connectors.connector_type import ConnectorType, Listing
from connectors.prometheus.settings import PrometheusSettings

CONNECTOR = ConnectorType(
    name="prometheus",
    settings=PrometheusSettings,
    build="connectors.prometheus.connector:build",
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
