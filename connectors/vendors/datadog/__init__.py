"""Datadog: metrics, logs, traces, events and monitors."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.datadog.settings import DatadogSettings

CONNECTOR = ConnectorType(
    name="datadog",
    settings=DatadogSettings,
    build="faultline.connectors.vendors.datadog.connector:build",
    kinds=("metrics", "logs", "spans", "changes", "topology", "monitors"),
    docs="datadog.md",
    listing=Listing(
        title="Datadog",
        login="API and application key",
        places="tags",
        permissions="12 scopes that read",
        tested_against="the published specification",
        also="errors, GPUs",
    ),
)
