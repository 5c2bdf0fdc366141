"""Prometheus: metrics, alerts, GPUs, and what lies beneath services."""

from connectors.connector_type import ConnectorType
from connectors.prometheus.settings import PrometheusSettings

CONNECTOR = ConnectorType(
    name="prometheus",
    settings=PrometheusSettings,
    build="connectors.prometheus.connector:build",
    kinds=("metrics", "monitors", "states", "topology"),
    docs="prometheus.md",
)
