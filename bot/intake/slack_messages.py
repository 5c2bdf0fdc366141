"""Messages in watched channels: which of them are alerts of other bots, and what each one does."""

from __future__ import annotations

from datetime import datetime, timedelta

from analysis.vocabulary import Alert
from bot.intake.accepting import Ignored
from bot.intake.slack_alerts import SOURCE, alert_in, in_thread, pagerduty_incident
from bot.intake.slack_mentions import delivery_id
from bot.intake.slack_payload import Envelope, Message, Ourselves
from bot.settings import Settings
from bot.store.store import Arrival, Delivery, ReplyTo

READ_SUBTYPES = frozenset({"", "bot_message", "thread_broadcast", "message_changed"})


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
    alert = alert_in(message, settings, now=now)
    if alert is None:
        return Ignored("not an alert")
    if alert.status == "firing" and (edited or message.is_reply):
        return Ignored("an edit or a reply starts nothing")
    # With webhooks from PagerDuty its incident has an investigation of its own, which writes the
    # note.
    incident = None if settings.pagerduty.webhook_secrets else pagerduty_incident(alert)
    return Arrival(
        alert=in_thread(alert, event.channel, message.thread),
        delivery=Delivery(SOURCE, delivery_id(envelope), _ordered_by(alert)),
        reply_to=ReplyTo(event.channel, message.thread or None, incident),
    )


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


def _ordered_by(alert: Alert) -> datetime:
    """The message's time, as events come in any order. An edit that ends an alert has the time of
    what it edits."""
    if alert.status == "resolved":
        return alert.started_at + timedelta(microseconds=1)
    return alert.started_at
