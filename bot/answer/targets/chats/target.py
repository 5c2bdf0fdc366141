"""What declares the chats. Imports no client: the settings and the store load this file, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from faultline.analysis.vocabulary import Alert
from faultline.bot.answer.targets.client_target import ClientTarget
from faultline.bot.policy.values import ReplyTo
from faultline.bot.settings import Settings
from faultline.bot.settings.reply_targets import (
    AnswerWebhookSettings,
    ChatSettings,
    DiscordSettings,
    EmailSettings,
    MattermostSettings,
    MsTeamsSettings,
)
from faultline.connectors.shared.settings.settings_types import Section

S = TypeVar("S", bound=Section)
C = TypeVar("C", bound=ChatSettings)


class AnnouncedTarget(ClientTarget[S]):
    """One that tells of each alert about what its table covers."""

    announces = True

    def address_for(
        self, alert: Alert, service: str | None, reply_to: ReplyTo, settings: Settings
    ) -> str | None:
        """None for an alert about what this table does not cover."""
        return self.address(reply_to, service, settings) if self.covers(alert, service) else None


class ChatTarget(AnnouncedTarget[C]):
    """One message in the service's channel, else in the usual one."""

    has_channels = True

    def address(self, reply_to: ReplyTo, service: str | None, settings: Settings) -> str | None:
        """The channel's id."""
        section = self.section(settings)
        if section is None:
            return None
        channels: Mapping[str, str] = getattr(section, "channels", {})
        named = channels.get(service) if service else None
        # What the alert itself names wins over the service's channel, and that over the usual one.
        return reply_to.other_addresses.get(self.target_name) or named or section.channel

    def address_for(
        self, alert: Alert, service: str | None, reply_to: ReplyTo, settings: Settings
    ) -> str | None:
        """A channel that the alert itself names goes before what this table covers."""
        if self.target_name in reply_to.other_addresses:
            return self.address(reply_to, service, settings)
        return super().address_for(alert, service, reply_to, settings)


class AnswerWebhook(AnnouncedTarget[AnswerWebhookSettings]):
    """Any system that takes JSON."""

    def address(self, reply_to: ReplyTo, service: str | None, settings: Settings) -> str | None:
        """The same for every investigation."""
        section = self.section(settings)
        return section.url if section else None


class Email(AnnouncedTarget[EmailSettings]):
    """E-mail."""

    def address(self, reply_to: ReplyTo, service: str | None, settings: Settings) -> str | None:
        """The addresses of the service, else the usual ones."""
        section = self.section(settings)
        if section is None:
            return None
        named = section.services.get(service, ()) if service else ()
        return ", ".join(named or section.to) or None


MSTEAMS = ChatTarget(
    name="msteams",
    label="Microsoft Teams",
    settings=MsTeamsSettings,
    needs=("client_secret", "client_id", "tenant", "channel"),
    client="faultline.bot.answer.targets.chats.msteams:TeamsCards",
)
MATTERMOST = ChatTarget(
    name="mattermost",
    label="Mattermost",
    settings=MattermostSettings,
    needs=("token", "url", "channel"),
    client="faultline.bot.answer.targets.chats.mattermost:MattermostPosts",
)
DISCORD = ChatTarget(
    name="discord",
    label="Discord",
    settings=DiscordSettings,
    needs=("webhook_url", "channel"),
    client="faultline.bot.answer.targets.chats.discord:DiscordMessages",
)
ANSWER_WEBHOOK = AnswerWebhook(
    name="answer_webhook",
    label="Webhook",
    settings=AnswerWebhookSettings,
    needs=("secret", "url"),
    client="faultline.bot.answer.targets.chats.webhook:WebhookDeliveries",
)
EMAIL = Email(
    name="email",
    label="E-mail",
    settings=EmailSettings,
    needs=("host", "sender", "to"),
    client="faultline.bot.answer.targets.chats.mail:Emails",
)
