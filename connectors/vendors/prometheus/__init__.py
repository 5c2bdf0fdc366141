"""Prometheus: metrics, alerts, GPUs, and what lies beneath services."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.settings_types import Url
from faultline.connectors.vendors.prometheus.exporter_metrics import ExporterMetric


class PrometheusSettings(SelfHostedSettings):
    """Prometheus HTTP API as a source of metrics."""

    url: Url | None = None
    """Base of the HTTP API. Unset: Prometheus is not used."""
    step_s: float = Field(default=15, gt=0)
    """Resolution of range queries, in seconds."""
    queries: Mapping[str, str] = Field(default_factory=dict)
    """Signal name to PromQL. `{service}` and `{job}` are replaced. Defaults:
    docs/connectors/prometheus.md."""
    service_label: str = "service"
    """The label that names the service."""
    metrics: tuple[ExporterMetric, ...] = ()
    """What metrics of your exporters mean, a table `[[prometheus.metrics]]` each, used before the
    built-in ones: docs/connectors/exporters.md."""


CONNECTOR = ConnectorType(
    name="prometheus",
    settings=PrometheusSettings,
    build="faultline.connectors.vendors.prometheus.connector:build",
    kinds=("metrics", "monitors", "states", "topology", "changes"),
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
