"""Sentry: issues, releases and suspect commits."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.sentry.settings import SentrySettings

CONNECTOR = ConnectorType(
    name="sentry",
    settings=SentrySettings,
    build="faultline.connectors.vendors.sentry.connector:build",
    kinds=("logs", "metrics", "changes"),
    docs="sentry.md",
    listing=Listing(
        title="Sentry",
        login="token of an integration",
        places="environments",
        permissions="`event:read`, `org:read`, `project:read`",
        tested_against="the published specification",
        also="stack traces",
    ),
)

ERROR_RATE = "error_rate"
"""The signal that an issue's events are counted as."""
