"""Splunk: log lines and their counts."""

from connectors.connector_type import ConnectorType, Listing
from connectors.splunk.settings import SplunkSettings

CONNECTOR = ConnectorType(
    name="splunk",
    settings=SplunkSettings,
    build="connectors.splunk.connector:build",
    kinds=("logs", "metrics"),
    docs="splunk.md",
    listing=Listing(
        title="Splunk",
        login="authentication token",
        places="indexes",
        permissions="the capability `search` on the indexes",
        tested_against="a stand-in after the REST reference",
    ),
)
