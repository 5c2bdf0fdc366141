"""What people made of an answer in Teams, and what they can do with it: lines and buttons of its
card.

A click comes back as an `adaptiveCard/action` (learn.microsoft.com, "Universal Actions for Adaptive
Cards"): `faultline.bot.intake.teams_clicks`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from faultline.analysis.vocabulary import QUESTION_PREFIX
from faultline.bot.answer.foreign_text import single_line
from faultline.bot.answer.lines import at
from faultline.bot.answer.targets.chats.teams_card import CardExtras
from faultline.bot.answer.targets.tickets.revert_target import RevertTarget
from faultline.bot.answer.targets.tickets.target import TicketOffer, ticket_offers
from faultline.bot.policy.people import person
from faultline.bot.policy.reply_targets import declared_targets
from faultline.bot.settings import Settings
from faultline.bot.store.listing import Labels
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.bot.store.suppressed_alerts import Mute, Mutes

RIGHT, WRONG, AGAIN, MUTE, UNMUTE, TICKET = "right", "wrong", "again", "mute", "unmute", "ticket"
"""Verbs of buttons. They stay the same: old cards keep their buttons."""
CAUSE = "cause"
"""The field of the form behind Wrong."""
MUTE_HOURS = 8
"""A mute by one click lasts a shift."""
MAX_WHO, MAX_TEXT, MAX_INPUT = 80, 240, 500


def answer_extras(key: str, store: Store, settings: Settings) -> CardExtras:
    """Of the message under a key; none where no investigation has ended. Blocks."""
    investigation = store.get(key.partition(":")[0])
    # A digest is about several investigations, so it has no buttons.
    if (
        investigation is None
        or key.endswith("-digest")
        or investigation.status not in ("done", "failed")
    ):
        return CardExtras()
    mute = Mutes(store.engine).muted(investigation.alert.fingerprint, datetime.now(UTC))
    tickets = issue_offers(investigation, store, settings)
    lines = [*_judged(investigation, store), *_muted(mute), *map(_made, tickets)]
    return CardExtras(
        [line for line in lines if line], list(_actions(investigation, mute, tickets))
    )


def issue_offers(
    investigation: StoredInvestigation, store: Store, settings: Settings
) -> list[TicketOffer]:
    """The trackers in use. Draft reverts are asked for where the case is at hand."""
    offers = ticket_offers(investigation, store, settings)
    reverts = {
        declared_target.target_name
        for declared_target in declared_targets(settings)
        if isinstance(declared_target, RevertTarget)
    }
    return [offer for offer in offers if offer.target not in reverts]


def may_mute(investigation: StoredInvestigation) -> bool:
    """What somebody asked for is no alert: there is nothing to mute."""
    return not investigation.alert.labels.get("fingerprint", "").startswith(QUESTION_PREFIX)


def _actions(
    investigation: StoredInvestigation, mute: Mute | None, tickets: list[TicketOffer]
) -> Iterator[dict[str, Any]]:
    if investigation.status == "done":
        yield _button(investigation, RIGHT, "Right")
        field = {
            "type": "Input.Text",
            "id": CAUSE,
            "label": "What was the cause?",
            "maxLength": MAX_INPUT,
        }
        form = {
            "type": "AdaptiveCard",
            "version": "1.5",
            "body": [field],
            "actions": [_button(investigation, WRONG, "Send")],
        }
        yield {"type": "Action.ShowCard", "title": "Wrong", "card": form}
    yield _button(investigation, AGAIN, "Run again")
    if mute is not None:
        yield _button(investigation, UNMUTE, "Unmute")
    elif may_mute(investigation):
        yield _button(investigation, MUTE, f"Mute for {MUTE_HOURS} h")
    if investigation.status == "done":
        for ticket in tickets:
            button = _button(investigation, TICKET, ticket.label, target=ticket.target)
            # Teams shows six buttons, and these behind three dots.
            yield {**button, "mode": "secondary"}


def _button(
    investigation: StoredInvestigation, verb: str, title: str, **more: str
) -> dict[str, Any]:
    data = {"investigation": investigation.id, **more}
    return {"type": "Action.Execute", "title": title, "verb": verb, "data": data}


def _judged(investigation: StoredInvestigation, store: Store) -> Iterator[str]:
    label = Labels(store.engine).get(investigation.id)
    if label is not None:
        who = single_line(person(label.who), MAX_WHO) or "somebody"
        cause = single_line(label.cause, MAX_TEXT)
        phrase = f": the cause was {cause}" if cause and not label.right else ""
        yield f"{'Right' if label.right else 'Wrong'}, said {who} at {at(label.at)}{phrase}"


def _muted(mute: Mute | None) -> Iterator[str]:
    if mute is not None:
        by = single_line(person(mute.by), MAX_WHO) or "somebody"
        yield f"Muted until {at(mute.until)} by {by}"


def _made(ticket: TicketOffer) -> str:
    return f"{ticket.noun} {single_line(ticket.title, MAX_WHO)}" if ticket.title else ""
