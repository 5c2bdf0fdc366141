"""What a click on a button under an answer does, and what its form keeps."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from faultline.analysis.errors import FaultlineError
from faultline.bot.answer.targets.slack.button_type import SlackButton
from faultline.bot.answer.targets.slack.buttons import MORE, PREFIX, all_buttons
from faultline.bot.conversation.slack.click_context import ClickContext
from faultline.bot.conversation.slack.payloads import Interaction
from faultline.bot.policy.people import Act
from faultline.bot.store.store import StoredInvestigation


class TooMuch(FaultlineError):
    """Somebody sent more forms than they may; its words are for them."""


class ClickableButton(SlackButton):
    """One button with what a click on it does."""

    act: ClassVar[Act] = "rate"
    """What a click, or its form, is in the table of roles."""
    form: ClassVar[str] = ""
    """The callback id of the form that it opens, "" for none."""
    first_field: ClassVar[str] = ""
    """The block of that form under which an error is shown."""

    @abstractmethod
    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """What a click does. Slack waits 3 s: what takes longer goes to `context.later`.

        Raises NotAccepted where the store does not answer; Slack shows that to whoever clicked.
        """

    def act_of(self, form: Interaction, investigation: StoredInvestigation) -> Act:
        """What the form that was filled in asks for."""
        return self.act

    async def sent(
        self, context: ClickContext, form: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Keep what the form of this button says. Raises NotAccepted, and TooMuch where somebody
        sent too many."""
        raise NotImplementedError(f"button {self.name} opens no form")


def clicked_button(action: str, value: str) -> tuple[ClickableButton, str] | None:
    """Which button was clicked under the answer to which investigation, from a click's action id
    and value; None for anything else."""
    name, investigation_id = action.removeprefix(PREFIX), value
    if action == MORE:
        # In the menu the value names the button, too.
        name, _, investigation_id = value.partition(" ")
    for button in all_buttons():
        if button.name == name and isinstance(button, ClickableButton):
            return button, investigation_id
    return None


def button_of_form(callback_id: str) -> ClickableButton | None:
    """The button that opened a form; None for a form of nobody."""
    for button in all_buttons():
        if isinstance(button, ClickableButton) and button.form and button.form == callback_id:
            return button
    return None
