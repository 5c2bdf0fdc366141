"""Dynatrace: golden signals, problems, deployments and configuration events."""

from connectors.connector_type import ConnectorType, Listing
from connectors.dynatrace.settings import DynatraceSettings

CONNECTOR = ConnectorType(
    name="dynatrace",
    settings=DynatraceSettings,
    build="connectors.dynatrace.connector:build",
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
