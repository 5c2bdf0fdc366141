"""What declares Slack as a reply target.

Imports nothing of Slack's client: the settings and the store load this file, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bot.answer.targets.target_type import ReplyTargetType, TargetProblem
from bot.policy.values import ReplyTo
from bot.settings import Settings
from bot.store.store import Store
from connectors.slack.settings import SlackSettings

if TYPE_CHECKING:
    from bot.answer.targets.slack.replies import SlackReplies


class SlackTarget(ReplyTargetType[SlackSettings]):
    """One message in the alert's own thread, else in its service's channel, else in the usual."""

    name = "slack"
    label = "Slack"
    settings = SlackSettings
    needs = ("bot_token",)
    announces = True
    has_channels = True

    def address(self, reply_to: ReplyTo, service: str | None, settings: Settings) -> str | None:
        """The channel; the thread in it is `reply_to.slack_thread`."""
        if reply_to.slack_channel:
            return reply_to.slack_channel
        entry = settings.services.get(service) if service else None
        return (entry.slack_channel if entry else None) or settings.slack.channel

    def problems(self, settings: Settings) -> Iterator[TargetProblem]:
        """Half a Slack app: events without answers, answers without events or without a channel."""
        slack = settings.slack
        if slack.app_token is not None and slack.bot_token is None:
            said = "Socket Mode (app_token) without a bot token"
            yield TargetProblem("wrong", said, "set FAULTLINE_SLACK__BOT_TOKEN")
        if slack.bot_token is None:
            return
        if slack.app_token is None and not slack.signing_secrets:
            said = "Slack gets answers, but its events and buttons are refused: there is no way in"
            todo = "set FAULTLINE_SLACK__SIGNING_SECRETS, or an app_token for Socket Mode"
            yield TargetProblem("wrong", said, todo)
        named = slack.channel is not None
        for service in settings.services.values():
            named = named or bool(service.slack_channel)
        if not named:
            said = (
                "only alerts that come from Slack are answered there: no channel is named for the "
                "others"
            )
            yield TargetProblem("note", said, "set slack.channel")

    def build(self, settings: Settings, store: Store, *, owner: str) -> SlackReplies:
        """The client, with the bot's token."""
        from bot.answer.targets.slack.replies import SlackReplies

        return SlackReplies(settings, store, owner=owner)

    async def check(self, settings: Settings) -> str:
        """Who the bot is in which workspace. Raises ConnectorError."""
        from bot.answer.targets.slack.replies import check_slack

        said = await check_slack(settings.slack)
        if not settings.slack.channel:
            said += "; slack.channel is not set: only alerts from Slack are answered there"
        return said


TARGET = SlackTarget()
