"""Splunk: log lines and their counts."""

from connectors.connector_type import ConnectorType
from connectors.splunk.settings import SplunkSettings

CONNECTOR = ConnectorType(
    name="splunk",
    settings=SplunkSettings,
    build="connectors.splunk.connector:build",
    kinds=("logs", "metrics"),
    docs="splunk.md",
)
