"""Prometheus: metrics, alerts and GPUs."""

from connectors.connector_type import ConnectorType
from connectors.prometheus.settings import PrometheusSettings

CONNECTOR = ConnectorType(
    name="prometheus",
    settings=PrometheusSettings,
    build="connectors.prometheus.connector:build",
    kinds=("metrics", "monitors", "topology"),
    docs="prometheus.md",
)
