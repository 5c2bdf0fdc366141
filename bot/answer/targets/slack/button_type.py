"""What a button under an answer is: when it is shown, what it says, and what a click does.

A button is one object. The message needs its label, which is pure; a click needs the rest, which
only the web process runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from bot.store.labels import AnswerLabel
from bot.store.mutes import Mute
from bot.store.store import StoredInvestigation

if TYPE_CHECKING:
    from bot.conversation.slack.click_context import ClickContext
    from bot.conversation.slack.payloads import Interaction


@dataclass(frozen=True)
class AnswerStatus:
    """What people have made of an answer, and what can still be done with it."""

    label: AnswerLabel | None = None
    mute: Mute | None = None
    may_mute: bool = True
    """Somebody's question is no alert: there is nothing to mute."""
    parent: str | None = None
    """The investigation that this one was started from."""
    note: Literal["none", "send", "update"] = "none"
    """What the button for PagerDuty would do; `none` where PagerDuty is not set up."""


@dataclass(frozen=True)
class Offer:
    """The answer that buttons are offered under. `answered` is False for a failed investigation."""

    investigation: StoredInvestigation
    status: AnswerStatus
    answered: bool


class SlackButton(ABC):
    """One button under an answer."""

    name: ClassVar[str]
    """In its action id, which stays the same: old messages keep their buttons."""
    form: ClassVar[str] = ""
    """The callback id of the form that it opens, "" for none."""
    first_field: ClassVar[str] = ""
    """The block of that form under which an error is shown."""

    @abstractmethod
    def label(self, offer: Offer) -> str | None:
        """What it says; None where it could do nothing. Pure."""

    @abstractmethod
    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """What a click does. Slack waits 3 s: what takes longer goes to `context.later`.

        Raises NotAccepted where the store does not answer; Slack shows that to whoever clicked.
        """

    async def sent(
        self, context: ClickContext, form: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Keep what the form of this button says. Raises NotAccepted."""
        raise NotImplementedError(f"button {self.name} opens no form")
