"""What a person asks of the bot in Slack: `@bot investigate <free text>`, else how to ask."""

from __future__ import annotations

from datetime import datetime

from faultline.analysis.vocabulary import Alert
from faultline.bot.intake.incident_request import since_in
from faultline.bot.intake.payload_fields import plain, single_line
from faultline.bot.intake.questions.commands import command_in
from faultline.bot.intake.service_names import mentioned
from faultline.bot.intake.slack_alerts import SOURCE, alert_in, in_thread
from faultline.bot.intake.slack_payload import Envelope, Message
from faultline.bot.intake.slack_text import slack_plain, slack_time
from faultline.bot.settings import Settings
from faultline.bot.store.store import Arrival, Delivery, ReplyTo
from faultline.connectors.shared.rows.named_ids import named_id

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
