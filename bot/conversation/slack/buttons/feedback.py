"""Right and Wrong: what a person says of the answer, with the cause in their words."""

from __future__ import annotations

import asyncio

from faultline.analysis.errors import FaultlineError
from faultline.bot.answer.targets.slack.button_type import Offer
from faultline.bot.conversation.slack.click_context import AT_ONCE_S, ClickContext
from faultline.bot.conversation.slack.clickable_button import ClickableButton
from faultline.bot.conversation.slack.forms import (
    CAUSE,
    WRONG_FORM,
    form_for,
    stated_cause,
    suspects_of,
    wrong_modal,
)
from faultline.bot.conversation.slack.payloads import Interaction
from faultline.bot.policy.people import without_mentions
from faultline.bot.store.store import StoredInvestigation


class RightButton(ClickableButton):
    """The answer is right."""

    name = "right"

    def label(self, offer: Offer) -> str | None:
        """Only where there is an answer."""
        return "Right" if offer.answered else None

    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Keep who said so, and show it."""
        who = click.user.display_name
        await context.stored(context.labels.write, investigation.id, right=True, who=who)
        await context.did_by_click(click, investigation, "said that the answer is right")
        context.later(context.refresh(investigation))


class WrongButton(ClickableButton):
    """The answer is wrong; a form asks for the cause."""

    name = "wrong"
    form = WRONG_FORM
    first_field = CAUSE

    def label(self, offer: Offer) -> str | None:
        """Only where there is an answer."""
        return "Wrong" if offer.answered else None

    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Ask for the cause."""
        context.later(_ask_for_cause(context, click, investigation))

    async def sent(
        self, context: ClickContext, form: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Keep the cause."""
        who, cause = form.user.display_name, stated_cause(form.view)
        await context.stored(
            context.labels.write, investigation.id, right=False, cause=cause, who=who
        )
        phrase = f"{who} said that the answer is wrong"
        if cause:
            phrase += f": the cause was {without_mentions(cause)}"
        await context.did(investigation.id, phrase, key=f"{form.user.id}:{form.view.id}")


RIGHT, WRONG = RightButton(), WrongButton()


async def _ask_for_cause(
    context: ClickContext, click: Interaction, investigation: StoredInvestigation
) -> None:
    try:
        async with asyncio.timeout(AT_ONCE_S):
            suspects = suspects_of((await context.answer(investigation)).diagnosis)
    except (FaultlineError, TimeoutError):
        # The form has a field for words, too, so it can do without the menu.
        suspects = []
    answer_label = await context.stored(context.labels.get, investigation.id)
    cause = answer_label.cause if answer_label is not None and not answer_label.right else ""
    modal = wrong_modal(form_for(click, investigation), investigation, suspects, cause)
    await context.open(click, modal)
