"""Splunk Observability Cloud: golden signals of APM, alerts of detectors, and custom events."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.splunk_observability.settings import SplunkObservabilitySettings

CONNECTOR = ConnectorType(
    name="splunk_observability",
    settings=SplunkObservabilitySettings,
    build="faultline.connectors.vendors.splunk_observability.connector:build",
    kinds=("metrics", "monitors", "changes"),
    docs="splunk_observability.md",
    listing=Listing(
        title="Splunk Observability Cloud",
        login="access token",
        places="organizations, environments",
        permissions="the API scope, role read_only",
        tested_against="a stand-in after its specification",
    ),
)
