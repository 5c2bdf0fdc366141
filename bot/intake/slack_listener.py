"""What people write to us in Slack beside `investigate`: in our threads, with a mention, in direct
messages.

A message becomes `SlackQuestion` for the message router. Bots, our own messages, joins and files of
others are not heard.
"""

from __future__ import annotations

import re
from datetime import datetime

from faultline.analysis.vocabulary import Alert
from faultline.bot.intake.incident_requests import since_in
from faultline.bot.intake.payload_fields import plain, single_line
from faultline.bot.intake.questions.commands import command_in
from faultline.bot.intake.questions.is_question import addresses_somebody
from faultline.bot.intake.questions.message_router import MessageRouter
from faultline.bot.intake.questions.slack_question import SlackQuestion, Surface
from faultline.bot.intake.service_names import mentioned
from faultline.bot.intake.slack_alerts import SOURCE, alert_in, in_thread
from faultline.bot.intake.slack_payload import Envelope, Message, Ourselves, slack_plain, slack_time
from faultline.bot.settings import Settings
from faultline.bot.store.store import Arrival, Delivery, ReplyTo
from faultline.connectors.shared.rows.named_ids import named_id

MESSAGE_SUBTYPES = frozenset({"", "thread_broadcast", "message_changed", "message_deleted"})
_TS = re.compile(r"\d{1,12}\.\d{1,9}")
_CHANNEL = re.compile(r"[A-Z0-9]{2,40}")


class SlackListener:
    """Hands messages of one workspace to the conversation; "" is that of `[slack]`."""

    def __init__(self, message_router: MessageRouter, workspace: str = "") -> None:
        self._router = message_router
        self._workspace = workspace

    async def message(self, envelope: Envelope, ourselves: Ourselves, *, within_s: float) -> None:
        """A message without its own `app_mention` event. Raises NotAccepted."""
        event, message = envelope.event, of_person(envelope)
        channel = named_id(self._workspace, event.channel)
        # A deletion names neither author nor text: only the time says which message is gone.
        if event.subtype == "message_deleted":
            await self._router.deleted(channel, event.deleted_ts, within_s=within_s)
            return
        if not _is_persons(message) or not _addressed(event.channel, message):
            return
        if event.subtype == "message_changed":
            text = slack_plain(message.text)
            await self._router.edited(channel, message.ts, text, within_s=within_s)
            return
        direct = is_direct(envelope)
        if not direct and (any(f"<@{user}>" in message.text for user in ourselves.user_ids)):
            return  # another event brings that
        if not direct and addresses_somebody(message.text):
            return
        question = self._question(envelope, "dm" if direct else "thread")
        await self._router.take(question, within_s=within_s)

    async def mention(self, envelope: Envelope, *, within_s: float) -> None:
        """Somebody mentioned us and did not ask for an investigation. Raises NotAccepted."""
        if _is_persons(envelope.event) and _addressed(envelope.event.channel, envelope.event):
            await self._router.take(self._question(envelope, "mention"), within_s=within_s)

    async def begins(self, envelope: Envelope, *, within_s: float) -> str | None:
        """The text of a mention that tells of trouble where nothing was answered yet, or None.
        Raises NotAccepted."""
        event = envelope.event
        if not _is_persons(event) or not _addressed(event.channel, event):
            return None
        requested_envelope = self._question(envelope, "mention")
        return (
            requested_envelope.text
            if await self._router.begins(requested_envelope, within_s=within_s)
            else None
        )

    async def may_investigate(self, envelope: Envelope, *, within_s: float) -> bool:
        """Whether the author has not asked for too many investigations in an hour, this one
        counted. Raises NotAccepted."""
        event = envelope.event
        # Another bot may ask as well, and has no user id.
        who = named_id(self._workspace, event.user or event.bot_id)
        key = f"{named_id(self._workspace, event.channel)}:{event.ts}"
        return await self._router.may_investigate(who, key, within_s=within_s)

    async def alert_of(self, message: Message, *, within_s: float) -> Alert | None:
        """The alert that our answer in this thread is about. Raises NotAccepted."""
        channel = named_id(self._workspace, message.channel)
        return await self._router.alert_of(channel, message.thread, within_s=within_s)

    def _question(self, envelope: Envelope, surface: Surface) -> SlackQuestion:
        event = envelope.event
        return SlackQuestion(
            text=slack_plain(event.text).strip(),
            who=event.user,
            channel=named_id(self._workspace, event.channel),
            thread=event.thread,
            ts=event.ts,
            surface=surface,
            event_id=envelope.event_id,
        )


def may_be_for_us(envelope: Envelope) -> bool:
    """Whether a message event can be a question, an edit or a deletion of one: in a thread, or
    written to us alone."""
    event = envelope.event
    if event.subtype not in MESSAGE_SUBTYPES or not event.channel:
        return False
    return event.subtype == "message_deleted" or of_person(envelope).is_reply or is_direct(envelope)


def is_direct(envelope: Envelope) -> bool:
    """Whether it was written to us alone: a direct message or the assistant's pane."""
    return envelope.event.channel_type == "im" or envelope.event.channel.startswith("D")


def of_person(envelope: Envelope) -> Message:
    """The message that an event is about: of an edit its new form."""
    event = envelope.event
    return event.message if event.subtype == "message_changed" else event


def _is_persons(message: Message) -> bool:
    # Each of these alone marks a bot's message.
    by_bot = (
        message.bot_id
        or message.app_id
        or message.bot_profile.app_id
        or message.subtype == "bot_message"
    )
    return bool(message.user) and not by_bot


def _addressed(channel: str, message: Message) -> bool:
    """Whether channel, message and thread have the form of Slack's; they become keys and
    addresses."""
    return bool(
        _CHANNEL.fullmatch(channel) and _TS.fullmatch(message.ts) and _TS.fullmatch(message.thread)
    )


# What a person asks of the bot in Slack: `@bot investigate <free text>`, else how to ask.

MAX_QUESTION = 2_000
HELP = (
    "Mention me with `investigate` and what you see, for example:\n"
    "> investigate checkout errors since 10:05\n"
    "In the thread of an alert, `investigate` alone is enough. I answer in the same thread."
)
"""Said where no store of questions is at hand; the conversation has a longer one."""


def question_in(message: Message) -> str | None:
    """The text after `investigate` ("" when there is none), or None when the message asks for
    something else."""
    command = command_in(slack_plain(message.text))
    if command is None or command.kind != "investigate":
        return None
    return plain(command.argument, MAX_QUESTION)


def mention_arrival(
    envelope: Envelope,
    question: str,
    parent: Message | None,
    settings: Settings,
    *,
    now: datetime,
    about: Alert | None = None,
) -> Arrival | None:
    """The requested investigation, or None when neither the question nor the thread says what to
    investigate. `about` is the alert that is answered in the thread, where we answered one.

    Each request is its own alert: someone who asks again shall get an answer, not silence.
    """
    message = envelope.event
    context: str | None = None
    subject = ""
    if about is not None:
        context, subject = about.summary, about.title
    elif parent is not None:
        context = plain(slack_plain(parent.text), 1_000)
        about = alert_in(parent, settings, now=now)
        subject = about.title if about else context
    title = single_line(question) or single_line(subject)
    if not title:
        return None
    service = mentioned(settings, "\n".join(filter(None, (question, subject))))
    workspace = settings.slack.instance.name
    channel = named_id(workspace, message.channel)
    requested_at = slack_time(message.ts) or now
    since = since_in(question, requested_at)
    if about is None:
        about = Alert(source=SOURCE, title=title, started_at=requested_at)
    # The question is about the alert that began the thread, so it takes over what that says.
    alert = Alert(
        source=SOURCE,
        id=message.ts,
        title=title,
        started_at=since or about.started_at,
        service=service or about.service,
        service_from="the question" if service else about.service_from,
        host=about.host,
        severity=about.severity,
        summary=context or None,
        labels={**about.labels, "fingerprint": f"asked:{channel}:{message.ts}"},
        links=about.links,
    )
    return Arrival(
        alert=in_thread(alert, channel, message.thread),
        delivery=Delivery(SOURCE, delivery_id(envelope, workspace)),
        reply_to=ReplyTo(slack_channel=channel or None, slack_thread=message.thread or None),
        question=question or None,
    )


def delivery_id(envelope: Envelope, workspace: str = "") -> str:
    """The event's id; without one, the message and what happened to it."""
    event = envelope.event
    channel = named_id(workspace, event.channel)
    return (
        named_id(workspace, envelope.event_id)
        or f"{event.type}:{event.subtype}:{channel}:{event.ts}"
    )
