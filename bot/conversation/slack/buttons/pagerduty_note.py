"""Send to PagerDuty: the answer as a note on the incident, by hand."""

from __future__ import annotations

from dataclasses import replace

from analysis.errors import ConnectorError, FaultlineError
from bot.answer.targets.slack.button_type import Offer
from bot.conversation.slack.click_context import OVER, ClickContext
from bot.conversation.slack.clickable_button import ClickableButton
from bot.conversation.slack.payloads import Interaction
from bot.runtime.threads import in_store
from bot.store.store import StoredInvestigation
from connectors.named_ids import bare_id

NOT_YET = "It is still being investigated; send it when the answer is there."
MAY_NOT_WRITE = (
    "The process that answers clicks has no PagerDuty token, so it cannot write the note. Workers "
    "write it for alerts that name their incident. For others, give the servers "
    "`FAULTLINE_PAGERDUTY__API_TOKEN` too."
)


class NoteButton(ClickableButton):
    """Writes or updates the note."""

    name = "pagerduty"

    def label(self, offer: Offer) -> str | None:
        """Only where PagerDuty is set up."""
        if offer.status.note == "none":
            return None
        return "Send to PagerDuty" if offer.status.note == "send" else "Update the PagerDuty note"

    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Write the note after Slack has its answer."""
        await context.did_by_click(click, investigation, "sent the answer to PagerDuty")
        context.later(_send(context, click, investigation))


NOTE = NoteButton()


async def _send(
    context: ClickContext, click: Interaction, investigation: StoredInvestigation
) -> None:
    if investigation.status not in OVER:
        await context.ephemeral(click, NOT_YET)
        return
    first = await _first(context, investigation)
    incident = investigation.reply_to.pagerduty_incident or first.reply_to.pagerduty_incident
    if incident is None:
        source = investigation.alert.source
        said = f"There is no PagerDuty incident for this alert: it came from {source}."
        await context.ephemeral(click, said)
        return
    notes = context.notes(incident)
    if notes is None:
        await context.ephemeral(click, f"The settings have no PagerDuty account for {incident}.")
        return
    if not notes.has_token:
        await context.ephemeral(click, MAY_NOT_WRITE)
        return
    try:
        outcome = await context.outcome(investigation)
        # An incident has one note: a further answer amends that of the first.
        target = replace(investigation, id=first.id, reply_to=first.reply_to)
        await notes.answer(replace(outcome, investigation=target))
    except ConnectorError as error:
        await context.ephemeral(click, f"PagerDuty did not take the note: {error}.")
        return
    except FaultlineError as error:
        await context.ephemeral(click, f"There is nothing to send: {error}.")
        return
    await context.ephemeral(click, f"The note on incident {bare_id(incident)} holds this answer.")
    await context.refresh(investigation)


async def _first(context: ClickContext, investigation: StoredInvestigation) -> StoredInvestigation:
    """The investigation that its chain of further ones began with."""
    first = await in_store(context.follow_ups.first, investigation.id)
    return await in_store(context.store.get, first) or investigation
