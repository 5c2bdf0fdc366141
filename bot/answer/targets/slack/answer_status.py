"""Read from the store what people have made of an answer. Blocks; on an event loop in a thread."""

from __future__ import annotations

from datetime import UTC, datetime

from faultline.bot.answer.outcome import Answer
from faultline.bot.answer.targets.slack.button_type import AnswerStatus
from faultline.bot.answer.targets.tickets.revert_target import blamed_link
from faultline.bot.answer.targets.tickets.target import ticket_offers
from faultline.bot.settings import Settings
from faultline.bot.store.follow_ups import FollowUps
from faultline.bot.store.listing import Labels
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.bot.store.suppressed_alerts import Mutes

REQUEST_PREFIX = "asked:"
"""The fingerprint label of what a person asked for begins so:
`faultline.bot.intake.slack_mentions`."""


def answer_status(
    investigation: StoredInvestigation,
    store: Store,
    settings: Settings,
    answer: Answer | None = None,
) -> AnswerStatus:
    """How the answer stands now."""
    now = datetime.now(UTC)
    is_request = investigation.alert.labels.get("fingerprint", "").startswith(REQUEST_PREFIX)
    blamed = blamed_link(answer.diagnosis) if answer else None
    parent = FollowUps(store.engine).parent(investigation.id)
    return AnswerStatus(
        label=Labels(store.engine).get(investigation.id),
        mute=None
        if is_request
        else Mutes(store.engine).muted(investigation.alert.fingerprint, now),
        may_mute=not is_request,
        parent=parent,
        tickets=ticket_offers(investigation, store, settings, blamed),
    )
