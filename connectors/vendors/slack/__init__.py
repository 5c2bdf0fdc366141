"""Slack: the alert's thread and announced deploys."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.slack.settings import SlackSettings

CONNECTOR = ConnectorType(
    name="slack",
    settings=SlackSettings,
    build="faultline.connectors.vendors.slack.connector:build",
    kinds=("alert", "changes"),
    docs="slack.md",
    listing=Listing(
        title="Slack",
        login="bot token",
        places="workspaces",
        permissions="`channels:history`, `groups:history`",
        tested_against="the published specification",
        also="the thread",
    ),
)

CHANNEL_LABEL, THREAD_LABEL = "slack_channel", "slack_thread"
"""Labels of an alert that came as a message: where it was posted."""
