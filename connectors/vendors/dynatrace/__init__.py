"""Dynatrace: golden signals, problems, deployments and configuration events."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.dynatrace.settings import DynatraceSettings

CONNECTOR = ConnectorType(
    name="dynatrace",
    settings=DynatraceSettings,
    build="faultline.connectors.vendors.dynatrace.connector:build",
    kinds=("metrics", "monitors", "changes"),
    docs="dynatrace.md",
    listing=Listing(
        title="Dynatrace",
        login="access token",
        places="environments",
        permissions="4 scopes that read",
        tested_against="a stand-in after its documentation",
    ),
)
