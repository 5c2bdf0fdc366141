"""PagerDuty: the incident, earlier ones and change events."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.pagerduty.settings import PagerDutySettings

CONNECTOR = ConnectorType(
    name="pagerduty",
    settings=PagerDutySettings,
    build="faultline.connectors.vendors.pagerduty.connector:build",
    kinds=("changes", "monitors", "alert"),
    docs="pagerduty.md",
    listing=Listing(
        title="PagerDuty",
        login="OAuth or API key",
        places="accounts",
        permissions="4 scopes that read",
        tested_against="the published specification",
        also="the incident, past ones",
    ),
)

ACCOUNT_LABEL = "pagerduty_account"
"""Label of an alert that came from one of several accounts: its name."""
