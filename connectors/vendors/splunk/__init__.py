"""Splunk: log lines and their counts."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.splunk.settings import SplunkSettings

CONNECTOR = ConnectorType(
    name="splunk",
    settings=SplunkSettings,
    build="faultline.connectors.vendors.splunk.connector:build",
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
