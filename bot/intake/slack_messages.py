"""Messages in watched channels: which of them are alerts of other bots, and what each one does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from faultline.analysis.vocabulary import Alert
from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.slack_alerts import (
    SOURCE,
    in_thread,
    pagerduty_incident,
    read_message,
)
from faultline.bot.intake.slack_listener import delivery_id
from faultline.bot.intake.slack_payload import Envelope, Message, Ourselves
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import EVERY_CHANNEL
from faultline.bot.store.store import Arrival, Delivery, ReplyTo
from faultline.connectors.shared.rows.named_ids import named_id

READ_SUBTYPES = frozenset({"", "bot_message", "thread_broadcast", "message_changed"})


@dataclass(frozen=True)
class PassedOver(Ignored):
    """A message of another bot in which no alert was recognised."""

    channel: str
    message: Message


def watched(
    envelope: Envelope, ourselves: Ourselves, settings: Settings, *, now: datetime
) -> Arrival | Ignored:
    """The alert in a message event, to be answered in that message's thread; or why there is none.

    An edited message and a reply in a thread can only end an alert: bots edit to unfurl links and
    reply to comment.
    """
    event = envelope.event
    if event.channel not in settings.slack.alert_channels or event.subtype not in READ_SUBTYPES:
        return Ignored("not a message in a watched channel")
    edited = event.subtype == "message_changed"
    message = event.message if edited else event
    why_not = _why_not_read(message, ourselves)
    if why_not is not None:
        return Ignored(why_not)
    workspace = settings.slack.instance.name
    channel = named_id(workspace, event.channel)
    why_not = _why_not_trusted(envelope, message, ourselves, channel, settings)
    if why_not:
        return PassedOver(why_not, channel, message)
    reading = read_message(message, settings, now=now)
    alert = reading.alert
    if alert is None:
        return PassedOver(reading.why_not, channel, message)
    if alert.status == "firing" and (edited or message.is_reply):
        return Ignored("an edit or a reply starts nothing")
    if alert.status == "firing" and not reading.starts:
        return Ignored(reading.why_not)
    # The message's time, as events come in any order. An edit that ends an alert has the time of
    # what it edits.
    if alert.status == "resolved":
        ordered_by = alert.started_at + timedelta(microseconds=1)
    else:
        ordered_by = alert.started_at
    incident = _noted_incident(alert, settings)
    # Equal messages in two workspaces are two alerts, each answered in its own.
    if workspace:
        fingerprint = f"{alert.labels['fingerprint']} workspace={workspace}"
        labels = {**alert.labels, "fingerprint": fingerprint}
        alert = alert.model_copy(update={"labels": labels})
    return Arrival(
        alert=in_thread(alert, channel, message.thread),
        delivery=Delivery(SOURCE, delivery_id(envelope, workspace), ordered_by),
        reply_to=ReplyTo(channel, message.thread or None, incident),
    )


def _noted_incident(alert: Alert, settings: Settings) -> str | None:
    """The PagerDuty incident that the message links to, where the answer becomes its note."""
    incident = pagerduty_incident(alert)
    account = _account_of(alert, settings)
    # With webhooks from PagerDuty its incident has its own investigation, which writes the
    # note.
    if incident is None or account is None or account.pagerduty.webhook_secrets:
        return None
    return named_id(account.pagerduty.instance.name, incident)


def _account_of(alert: Alert, settings: Settings) -> Settings | None:
    """The settings for the account that the link to the incident leads to; None where that is not
    known."""
    accounts = settings.per_instance("pagerduty")
    if len(accounts) == 1:
        return accounts[0]
    # The first link is the one whose incident the alert is.
    hosts = [urlsplit(link.url).netloc for link in alert.links if link.title == "PagerDuty"]
    for account in accounts:
        netloc = urlsplit(account.pagerduty.web_url or "").netloc
        if netloc and hosts and netloc.casefold() == hosts[0].casefold():
            return account
    return None


def _why_not_trusted(
    envelope: Envelope, message: Message, ourselves: Ourselves, channel: str, settings: Settings
) -> str:
    """Why messages of this app start nothing in the channel; "" where they may.

    `apps` of the channel names those that may. Unset: every app of our workspaces. Anybody may
    choose a name, so an app of another workspace counts by its id alone.
    """
    channels = settings.alerts.channels
    channel_settings = channels.get(channel) or channels.get(EVERY_CHANNEL)
    apps = {app.casefold() for app in channel_settings.apps} if channel_settings else set()
    ids = {message.bot_id, message.app_id, message.bot_profile.app_id} - {""}
    if apps.intersection(id_.casefold() for id_ in ids):
        return ""
    home = ourselves.teams or envelope.installed_in
    is_shared = envelope.is_ext_shared_channel is True
    # Where people of other companies are, an app has to show that it is ours.
    if not message.teams <= home or (is_shared and not message.teams):
        return "an app of another workspace"
    names = {message.username.casefold(), message.bot_profile.name.casefold()}
    if apps and not apps & names:
        return "an app that the channel's `apps` do not name"
    return ""


def _why_not_read(message: Message, ourselves: Ourselves) -> str | None:
    """Why the message is none of another bot; None where it is one and may be an alert."""
    if ourselves.wrote(message):
        return "our own message"
    # Either mark alone makes it a bot's message.
    if not message.bot_id and message.subtype != "bot_message":
        return "written by a person"
    if any(f"<@{user}>" in message.text for user in ourselves.user_ids):
        return "it mentions us: another event brings that"
    return None
