"""Send to PagerDuty: the answer as a note on the incident.

A click leaves the wish in the store, and a worker, which alone has the token, writes the note.
"""

from __future__ import annotations

from faultline.bot.answer.targets.slack.buttons import Offer
from faultline.bot.answer.targets.tickets.target import TicketOffer, ticket_offers
from faultline.bot.conversation.slack.buttons.tickets import TicketButton
from faultline.bot.conversation.slack.click_context import ClickContext
from faultline.bot.conversation.slack.payloads import Interaction
from faultline.bot.store.follow_ups import TicketRequests
from faultline.bot.store.store import StoredInvestigation

NOT_YET = "It is still being investigated; send it when the answer is there."


class NoteButton(TicketButton):
    """Asks for the note, or has it brought up to date."""

    name, target, noun = "pagerduty", "pagerduty", "PagerDuty note"

    def label(self, offer: Offer) -> str | None:
        """Only where there is an answer, and an incident that takes notes."""
        ticket_offer = self._offer(offer.status.tickets)
        return ticket_offer.label if ticket_offer and offer.answered else None

    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Keep the wish."""
        offer = self._offer(
            await context.stored(ticket_offers, investigation, context.store, context.settings)
        )
        if offer is None:
            source = investigation.alert.source
            sentence = f"There is no PagerDuty incident for this alert: it came from {source}."
            context.later(context.ephemeral(click, sentence))
            return
        tickets = TicketRequests(context.store.engine)
        if not await context.stored(tickets.ask, investigation.id, offer.target, offer.about):
            context.later(context.ephemeral(click, NOT_YET))
            return
        await context.did_by_click(click, investigation, f"asked for a {offer.what}")
        sentence = f"The {offer.what} is on its way. It will be named under the answer."
        context.later(context.ephemeral(click, sentence))

    def _offer(self, offers: tuple[TicketOffer, ...]) -> TicketOffer | None:
        """Of several accounts, the one that the incident belongs to."""
        for offer in offers:
            if offer.target.split(" ")[0] == self.target:
                return offer
        return None


NOTE = NoteButton()
