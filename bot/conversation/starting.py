"""`investigate ...` where no alert's thread says more: in a direct message or the assistant's pane.
Started once."""

from __future__ import annotations

from faultline.analysis.vocabulary import Alert
from faultline.bot.intake.payload_fields import plain, single_line
from faultline.bot.intake.service_names import mentioned
from faultline.bot.settings import Settings
from faultline.bot.store.conversations import Question
from faultline.bot.store.store import Delivery, ReplyTo, Store

SOURCE = "slack"
MAX_QUESTION = 2_000


def start_investigation(
    question: Question, text: str, settings: Settings, store: Store, source: str, reply_to: ReplyTo
) -> str | None:
    """Accept it under the question's own id; the same question again starts nothing. Gives the
    investigation."""
    service = mentioned(settings, text)
    alert = Alert(
        source=source,
        id=question.ts,
        title=single_line(text),
        started_at=question.requested_at,
        service=service,
        service_from="the question" if service else None,
        labels={"fingerprint": f"asked:{question.channel}:{question.ts}"},
    )
    accepted = store.accept(
        alert,
        delivery=Delivery(source, f"question {question.id}"),
        reply_to=reply_to,
        question=plain(text, MAX_QUESTION),
    )
    return accepted.investigation_id
