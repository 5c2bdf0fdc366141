"""Slack: the alert's thread and announced deploys."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Names, Secrets, Url


class SlackSettings(ConnectorSettings):
    """Slack events in (HTTP or Socket Mode), replies out."""

    bot_token: SecretStr | None = None
    """Secret. `xoxb-...`"""
    signing_secrets: Secrets = ()
    """Secret. For events over HTTP. During a rotation several, separated by commas."""
    app_token: SecretStr | None = None
    """Secret. `xapp-...`. If set, events come over Socket Mode."""
    alert_channels: Names = ()
    """Channel ids where alert messages of other bots start an investigation."""
    deploy_channels: Names = ()
    """Channel ids in which deploys are announced: docs/connectors/slack.md."""
    channel: str | None = None
    """Channel id for replies to alerts that did not come from Slack. Unset: those get no Slack
    reply."""
    follow_ups: Literal["questions", "mentions", "off"] = "questions"
    """What is answered in an investigation's thread besides commands: every question the bot
    understands, those that mention it, or none: docs/conversation.md."""
    quiet_channels: Names = ()
    """Channel ids where only questions that mention the bot are answered."""
    questions_per_hour: int = Field(default=40, ge=1, le=1000)
    """Questions answered in one thread within an hour."""
    further_per_hour: int = Field(default=5, ge=0, le=100)
    """Follow-ups that the questions of one thread may start within an hour."""
    api_url: Url = "https://slack.com/api"
    """Web API. Change it only for tests."""


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
