"""Send to PagerDuty: the answer as a note on the incident.

A click leaves the wish in the store, and a worker, which alone has the token, writes the note.
"""

from __future__ import annotations

from faultline.bot.answer.targets.slack.button_type import Offer
from faultline.bot.answer.targets.tickets.target import TicketOffer, ticket_offers
from faultline.bot.conversation.slack.buttons.tickets import TicketButton
from faultline.bot.conversation.slack.click_context import ClickContext
from faultline.bot.conversation.slack.payloads import Interaction
from faultline.bot.store.store import StoredInvestigation
from faultline.bot.store.tickets import AskedTickets

NOT_YET = "It is still being investigated; send it when the answer is there."


class NoteButton(TicketButton):
    """Asks for the note, or has it brought up to date."""

    name, target, one = "pagerduty", "pagerduty", "PagerDuty note"

    def label(self, offer: Offer) -> str | None:
        """Only where there is an answer, and an incident that takes notes."""
        found = self._offer(offer.status.tickets)
        return found.label if found and offer.answered else None

    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Keep the wish."""
        found = self._offer(
            await context.stored(ticket_offers, investigation, context.store, context.settings)
        )
        if found is None:
            source = investigation.alert.source
            said = f"There is no PagerDuty incident for this alert: it came from {source}."
            context.later(context.ephemeral(click, said))
            return
        tickets = AskedTickets(context.store.engine)
        if not await context.stored(tickets.ask, investigation.id, found.target, found.about):
            context.later(context.ephemeral(click, NOT_YET))
            return
        await context.did_by_click(click, investigation, f"asked for a {found.what}")
        said = f"The {found.what} is on its way. It will be named under the answer."
        context.later(context.ephemeral(click, said))

    def _offer(self, offers: tuple[TicketOffer, ...]) -> TicketOffer | None:
        """Of several accounts, the one that the incident belongs to."""
        for one in offers:
            if one.target.split(" ")[0] == self.target:
                return one
        return None


NOTE = NoteButton()
