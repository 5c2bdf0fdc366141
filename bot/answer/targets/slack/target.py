"""What declares Slack as a reply target.

It does not import Slack's client, because the settings and the store load this file, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from faultline.analysis.vocabulary import Alert
from faultline.bot.answer.targets.target_type import ReplyTargetType, TargetProblem
from faultline.bot.policy.values import ReplyTo
from faultline.bot.settings import Settings
from faultline.bot.store.store import Store
from faultline.connectors.shared.rows.named_ids import instance_in, named_id
from faultline.connectors.vendors.slack import SlackSettings

if TYPE_CHECKING:
    from faultline.bot.answer.targets.slack.replies import SlackReplies


class SlackTarget(ReplyTargetType[SlackSettings]):
    """One message in the alert's own thread, else in its service's channel, else in the usual.

    Of several workspaces each is a target, with its own app, token and channels.
    """

    name = "slack"
    label = "Slack"
    settings = SlackSettings
    needs = ("bot_token",)
    announces = True
    has_channels = True

    @property
    def workspace(self) -> str:
        """The name of its workspace; "" for that of `[slack]`."""
        return self.instance.name if self.instance else ""

    def address(self, reply_to: ReplyTo, service: str | None, settings: Settings) -> str | None:
        """The channel; the thread in it is `reply_to.slack_thread`."""
        if reply_to.slack_channel:
            # What came from a workspace is answered there, and nowhere else.
            return self._in_workspace(reply_to.slack_channel)
        entry = settings.services.get(service) if service else None
        of_service = (
            self._in_workspace(entry.slack_channel) if entry and entry.slack_channel else None
        )
        return of_service or self._usual(settings)

    def address_for(
        self, alert: Alert, service: str | None, reply_to: ReplyTo, settings: Settings
    ) -> str | None:
        """None for an alert from elsewhere that is about what this workspace does not cover."""
        if not reply_to.slack_channel and not self.covers(alert, service):
            return None
        return self.address(reply_to, service, settings)

    def problems(self, settings: Settings) -> Iterator[TargetProblem]:
        """Half a Slack app: events without answers, answers without events or without a channel."""
        slack = self.section(settings)
        if slack is None:
            return
        if slack.app_token is not None and slack.bot_token is None:
            phrase = f"Socket Mode (app_token) without a bot token{self._where}"
            yield TargetProblem("wrong", phrase, f"set {self.variable('bot_token')}")
        if slack.bot_token is None:
            return
        if slack.app_token is None and not slack.signing_secrets:
            phrase = "Slack gets answers, but its events and buttons are refused"
            todo = f"set {self.variable('signing_secrets')}, or an app_token for Socket Mode"
            yield TargetProblem("wrong", f"{phrase}{self._where}", todo)
        named = slack.channel is not None
        for service in settings.services.values():
            named = named or bool(
                service.slack_channel and self._in_workspace(service.slack_channel)
            )
        if not named:
            phrase = (
                "only alerts that come from Slack are answered there: no channel is named for the "
                f"others{self._where}"
            )
            yield TargetProblem("note", phrase, f"set {self._key('channel')}")

    def build(self, settings: Settings, store: Store, *, owner: str) -> SlackReplies:
        """The client, with the token of the workspace that the settings were made for."""
        from faultline.bot.answer.targets.slack.replies import SlackReplies

        return SlackReplies(settings, store, owner=owner)

    async def check(self, settings: Settings) -> str:
        """Who the bot is in which workspace. Raises ConnectorError."""
        from faultline.bot.answer.targets.slack.token_check import check_slack

        slack = self.scoped_settings(settings).slack
        summary = await check_slack(slack)
        if not slack.channel:
            key = self._key("channel")
            summary += f"; {key} is not set: only alerts from Slack are answered there"
        return summary

    @property
    def _where(self) -> str:
        return f" ({self.workspace})" if self.workspace else ""

    def _key(self, key: str) -> str:
        return f"slack.{self.workspace}.{key}" if self.workspace else f"slack.{key}"

    def _in_workspace(self, channel: str) -> str | None:
        return channel if instance_in(channel) == self.workspace else None

    def _usual(self, settings: Settings) -> str | None:
        slack = self.section(settings)
        if slack is None or slack.channel is None:
            return None
        return named_id(self.workspace, slack.channel)


TARGET = SlackTarget()
