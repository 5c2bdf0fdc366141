"""Evidence: the findings for and against each cause, in a modal of several pages."""

from __future__ import annotations

import asyncio
from typing import Any

from faultline.analysis.errors import FaultlineError
from faultline.bot.answer.targets.slack.button_type import Offer
from faultline.bot.conversation.slack.click_context import AT_ONCE_S, ClickContext
from faultline.bot.conversation.slack.clickable_button import ClickableButton
from faultline.bot.conversation.slack.evidence_modal import (
    EvidenceShown,
    evidence_modal,
    no_evidence_modal,
    read_page,
    reading_modal,
)
from faultline.bot.conversation.slack.payloads import Interaction
from faultline.bot.store.store import StoredInvestigation


class EvidenceButton(ClickableButton):
    """Opens the evidence."""

    name = "evidence"
    act = "read"

    def label(self, offer: Offer) -> str | None:
        """Only where there is an answer."""
        return "Evidence" if offer.answered else None

    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Open the first page."""
        await context.did_by_click(click, investigation, "looked at the evidence")
        context.later(_open(context, click, investigation))


EVIDENCE = EvidenceButton()


async def turn_page(context: ClickContext, click: Interaction) -> None:
    """Another page of the evidence."""
    requested_page = read_page(click.action.chosen)
    if requested_page is None:
        return
    page, investigation_id = requested_page
    investigation = await context.stored(context.store.get, investigation_id)
    if investigation is not None:
        context.later(_show_page(context, click, investigation, page))


async def _open(
    context: ClickContext, click: Interaction, investigation: StoredInvestigation
) -> None:
    reading = asyncio.ensure_future(_view(context, investigation, 0))
    await asyncio.wait({reading}, timeout=AT_ONCE_S)
    if reading.done():
        await context.open(click, reading.result())
        return
    # The trigger of a click lives for 3 s, so a slow case is shown in a modal that is open already.
    url = context.replies.page_url(investigation)
    opened = await context.open(click, reading_modal(investigation, url))
    view = await reading
    if opened is not None:
        await context.update(opened, view)


async def _show_page(
    context: ClickContext, click: Interaction, investigation: StoredInvestigation, page: int
) -> None:
    view = await _view(context, investigation, page)
    await context.update(click.view.id, view, hash_=click.view.hash)


async def _view(
    context: ClickContext, investigation: StoredInvestigation, page: int
) -> dict[str, Any]:
    url = context.replies.page_url(investigation)
    try:
        answer = await context.answer(investigation)
    except FaultlineError as error:
        return no_evidence_modal(investigation, str(error), url)
    answered = EvidenceShown(answer.diagnosis, answer.evidence, answer.gaps)
    return evidence_modal(investigation, answered, url, page)
