"""Sentry: issues, releases and suspect commits."""

from connectors.connector_type import ConnectorType
from connectors.sentry.settings import SentrySettings

CONNECTOR = ConnectorType(
    name="sentry",
    settings=SentrySettings,
    build="connectors.sentry.connector:build",
    kinds=("logs", "metrics", "changes"),
    docs="sentry.md",
)

ERROR_RATE = "error_rate"
"""The signal that an issue's events are counted as."""
