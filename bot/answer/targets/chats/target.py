"""What declares the chats. Imports no client: the settings and the store load this file, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from analysis.vocabulary import Alert
from bot.answer.targets.client_target import ClientTarget
from bot.policy.values import ReplyTo
from bot.settings import Settings
from bot.settings.chats import (
    AnswerWebhookSettings,
    ChatSettings,
    DiscordSettings,
    EmailSettings,
    MattermostSettings,
    MsTeamsSettings,
)

S = TypeVar("S", bound=ChatSettings)


class ChatTarget(ClientTarget[S]):
    """One message in the service's channel, else in the usual one."""

    announces = True
    has_channels = True

    def address(self, reply_to: ReplyTo, service: str | None, settings: Settings) -> str | None:
        """The channel's id."""
        own = self.section(settings)
        if own is None:
            return None
        channels: Mapping[str, str] = getattr(own, "channels", {})
        named = channels.get(service) if service else None
        return reply_to.others.get(self.own_name) or named or own.channel

    def address_for(
        self, alert: Alert, service: str | None, reply_to: ReplyTo, settings: Settings
    ) -> str | None:
        """None for an alert about what this table does not cover."""
        if self.own_name not in reply_to.others and not self.covers(alert, service):
            return None
        return self.address(reply_to, service, settings)


class MsTeams(ChatTarget[MsTeamsSettings]):
    """Microsoft Teams."""

    name = "msteams"
    label = "Microsoft Teams"
    settings = MsTeamsSettings
    needs = ("client_secret", "client_id", "tenant", "channel")
    client = "bot.answer.targets.chats.msteams:TeamsCards"


class Mattermost(ChatTarget[MattermostSettings]):
    """Mattermost."""

    name = "mattermost"
    label = "Mattermost"
    settings = MattermostSettings
    needs = ("token", "url", "channel")
    client = "bot.answer.targets.chats.mattermost:MattermostPosts"


class Discord(ChatTarget[DiscordSettings]):
    """Discord."""

    name = "discord"
    label = "Discord"
    settings = DiscordSettings
    needs = ("webhook_url", "channel")
    client = "bot.answer.targets.chats.discord:DiscordMessages"


class AnswerWebhook(ClientTarget[AnswerWebhookSettings]):
    """Any system that takes JSON."""

    name = "answer_webhook"
    label = "Webhook"
    settings = AnswerWebhookSettings
    needs = ("secret", "url")
    announces = True
    client = "bot.answer.targets.chats.webhook:WebhookDeliveries"

    def address(self, reply_to: ReplyTo, service: str | None, settings: Settings) -> str | None:
        """The same for every investigation."""
        own = self.section(settings)
        return own.url if own else None

    def address_for(
        self, alert: Alert, service: str | None, reply_to: ReplyTo, settings: Settings
    ) -> str | None:
        """None for an alert about what this table does not cover."""
        return self.address(reply_to, service, settings) if self.covers(alert, service) else None


class Email(ClientTarget[EmailSettings]):
    """E-mail."""

    name = "email"
    label = "E-mail"
    settings = EmailSettings
    needs = ("host", "sender", "to")
    announces = True
    client = "bot.answer.targets.chats.mail:Emails"

    def address(self, reply_to: ReplyTo, service: str | None, settings: Settings) -> str | None:
        """The addresses of the service, else the usual ones."""
        own = self.section(settings)
        if own is None:
            return None
        named = own.services.get(service, ()) if service else ()
        return ", ".join(named or own.to) or None

    def address_for(
        self, alert: Alert, service: str | None, reply_to: ReplyTo, settings: Settings
    ) -> str | None:
        """None for an alert about what this table does not cover."""
        return self.address(reply_to, service, settings) if self.covers(alert, service) else None


ANSWER_WEBHOOK, EMAIL = AnswerWebhook(), Email()
MSTEAMS, MATTERMOST, DISCORD = MsTeams(), Mattermost(), Discord()
