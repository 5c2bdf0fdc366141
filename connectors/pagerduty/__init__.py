"""PagerDuty: the incident, earlier ones and change events."""

from connectors.connector_type import ConnectorType
from connectors.pagerduty.settings import PagerDutySettings

CONNECTOR = ConnectorType(
    name="pagerduty",
    settings=PagerDutySettings,
    build="connectors.pagerduty.connector:build",
    kinds=("changes", "monitors", "alert"),
    docs="pagerduty.md",
)

ACCOUNT_LABEL = "pagerduty_account"
"""Label of an alert that came from one of several accounts: its name."""
