"""The row of buttons under an answer, and what people have made of it: judged, muted, asked again.

A button that cannot do anything is not shown.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import ClassVar

from faultline.analysis.wording.phrases import capitalised
from faultline.bot.answer.foreign_text import escape_mrkdwn, safe_url, single_line
from faultline.bot.answer.lines import at
from faultline.bot.answer.outcome import Answer
from faultline.bot.answer.targets.slack.blocks import (
    MAX_OVERFLOW,
    Block,
    actions,
    button,
    option,
    overflow,
)
from faultline.bot.answer.targets.tickets.revert_target import blamed_link
from faultline.bot.answer.targets.tickets.target import TicketOffer, ticket_offers
from faultline.bot.policy.people import SLACK_USER
from faultline.bot.settings import Settings
from faultline.bot.store.follow_ups import FollowUps
from faultline.bot.store.listing import AnswerLabel, Labels
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.bot.store.suppressed_alerts import Mute, Mutes
from faultline.connectors.shared.contract.plugins import load_object
from faultline.connectors.shared.rows.named_ids import bare_id

# What a message knows of a button under an answer: when it is shown, and what it says.
#
# What a click does is `faultline.bot.conversation.slack.click_context`, which only the web
# process needs.


@dataclass(frozen=True)
class AnswerStatus:
    """What people have made of an answer, and what can still be done with it."""

    label: AnswerLabel | None = None
    mute: Mute | None = None
    may_mute: bool = True
    """Somebody's question is no alert: there is nothing to mute."""
    parent: str | None = None
    """The investigation that this one was started from."""
    tickets: tuple[TicketOffer, ...] = ()
    """The trackers in use and PagerDuty, each with the ticket or note that there is."""


@dataclass(frozen=True)
class Offer:
    """The answer that buttons are offered under. `answered` is False for a failed investigation."""

    investigation: StoredInvestigation
    status: AnswerStatus
    answered: bool


class SlackButton(ABC):
    """The part of a button under an answer that the message knows."""

    name: ClassVar[str]
    """In its action id, which stays the same: old messages keep their buttons."""

    @abstractmethod
    def label(self, offer: Offer) -> str | None:
        """What it says; None where it could do nothing. Pure."""


BUTTONS = (
    "faultline.bot.conversation.slack.buttons.follow_up:EVIDENCE",
    "faultline.bot.conversation.slack.buttons.follow_up:RIGHT",
    "faultline.bot.conversation.slack.buttons.follow_up:WRONG",
    "faultline.bot.conversation.slack.buttons.muting:UNMUTE",
    "faultline.bot.conversation.slack.buttons.follow_up:WIDER",
    "faultline.bot.conversation.slack.buttons.follow_up:AGAIN",
    "faultline.bot.conversation.slack.buttons.muting:MUTE",
    "faultline.bot.conversation.slack.buttons.pagerduty_note:NOTE",
    "faultline.bot.conversation.slack.buttons.tickets:JIRA",
    "faultline.bot.conversation.slack.buttons.tickets:LINEAR",
    "faultline.bot.conversation.slack.buttons.tickets:GITHUB",
    "faultline.bot.conversation.slack.buttons.tickets:GITLAB",
    "faultline.bot.conversation.slack.buttons.tickets:GITHUB_REVERT",
    "faultline.bot.conversation.slack.buttons.tickets:GITLAB_REVERT",
)
"""Every button, in the order in which people see them."""
PREFIX = "faultline_"
"""Of every action id and callback id of ours."""
MORE = f"{PREFIX}more"
"""The overflow menu."""
MAX_BUTTONS = 5
"""More of them in a row wrap on a phone; what is left goes behind the three dots."""
MAX_CAUSE, MAX_WHO, MAX_REASON = 240, 80, 120


@cache
def all_buttons() -> tuple[SlackButton, ...]:
    """The buttons of the list."""
    # They are loaded by name and late, because what a click does lies in a room above this one.
    slack_buttons = []
    for target in BUTTONS:
        declared = load_object(target)
        assert isinstance(declared, SlackButton), target
        slack_buttons.append(declared)
    return tuple(slack_buttons)


def buttons(offer: Offer) -> list[Block]:
    """The rows of buttons; of a failed investigation those that need no answer."""
    shown = []
    for slack_button in all_buttons():
        label = slack_button.label(offer)
        if label is not None:
            shown.append((slack_button.name, label))
    # A row with a menu at its end, and a second row of what the menu has no room for.
    investigation_id = offer.investigation.id
    rest = shown[MAX_BUTTONS - 1 :] if len(shown) > MAX_BUTTONS else ()
    first, menu, more = shown[: len(shown) - len(rest)], rest[:MAX_OVERFLOW], rest[MAX_OVERFLOW:]
    elements = [button(f"{PREFIX}{name}", label, investigation_id) for name, label in first]
    if menu:
        options = [option(label, f"{name} {investigation_id}") for name, label in menu]
        elements.append(overflow(MORE, options))
    rows = [actions("faultline_buttons", elements)]
    if more:
        below = [button(f"{PREFIX}{name}", label, investigation_id) for name, label in more]
        rows.append(actions("faultline_more_buttons", below))
    return rows


def status_lines(status: AnswerStatus, page_url: str) -> list[Block]:
    """Small lines under the buttons, each by itself: who judged it, until when it is muted, what it
    was started from."""
    lines: list[str] = []
    if status.label is not None:
        lines.append(_judged(status.label))
    if status.mute is not None:
        lines.append(_muted(status.mute))
    if status.parent is not None:
        # The pages of investigations are beside each other.
        url = safe_url(f"{page_url.rpartition('/')[0]}/{status.parent}")
        first = escape_mrkdwn(single_line(status.parent, 60))
        lines.append(
            f"Started from <{escape_mrkdwn(url)}|{first}>" if url else f"Started from {first}"
        )
    lines += [_ticket(ticket) for ticket in status.tickets if ticket.title]
    # `verbatim`: Slack turns no name or address in it into a mention or link.
    elements = [{"type": "mrkdwn", "text": line, "verbatim": True} for line in lines]
    return [{"type": "context", "elements": [element]} for element in elements]


def until_words(until: datetime) -> str:
    """`14:02 UTC, 20 Nov`: the end of a mute."""
    return f"{until:%H:%M} UTC, {until.day} {until:%b}"


def _judged(label: AnswerLabel) -> str:
    who = escape_mrkdwn(single_line(label.who, MAX_WHO)) or "somebody"
    if SLACK_USER.fullmatch(label.who):
        # Who wrote in the thread is known by id alone; Slack shows the name.
        who = f"<@{bare_id(label.who)}>"
    verdict = "*Right*" if label.right else "*Wrong*"
    cause = escape_mrkdwn(single_line(label.cause, MAX_CAUSE))
    phrase = f": the cause was {cause}" if cause and not label.right else ""
    return f"{verdict}, said {who} at {at(label.at)}{phrase}"


def _muted(mute: Mute) -> str:
    who = escape_mrkdwn(single_line(mute.by, MAX_WHO)) or "somebody"
    reason = escape_mrkdwn(single_line(mute.reason, MAX_REASON))
    return f"*Muted* until {until_words(mute.until)} by {who}{f' ({reason})' if reason else ''}"


def _ticket(ticket_offer: TicketOffer) -> str:
    url, title = safe_url(ticket_offer.url), escape_mrkdwn(single_line(ticket_offer.title, MAX_WHO))
    what = capitalised(ticket_offer.noun)
    return f"{what} <{escape_mrkdwn(url)}|{title}>" if url else f"{what} {title}"


# Read from the store what people have made of an answer. Blocks; on an event loop in a thread.

REQUEST_PREFIX = "asked:"
"""The fingerprint label of what a person asked for begins so:
`faultline.bot.intake.slack_listener`."""


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
