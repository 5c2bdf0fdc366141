"""What a message knows of a button under an answer: when it is shown, and what it says.

What a click does is `faultline.bot.conversation.slack.clickable_button`, which only the web process
needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from faultline.bot.answer.targets.tickets.target import TicketOffer
from faultline.bot.store.listing import AnswerLabel
from faultline.bot.store.store import StoredInvestigation
from faultline.bot.store.suppressed_alerts import Mute


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
