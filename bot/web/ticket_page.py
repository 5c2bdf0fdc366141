"""The form under an answer that asks for a ticket."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from faultline.analysis.case.folder import read_diagnosis
from faultline.analysis.errors import FaultlineError
from faultline.bot.answer.targets.tickets.revert_target import blamed_link
from faultline.bot.answer.targets.tickets.target import ticket_offers
from faultline.bot.runtime.threads import in_store, in_thread
from faultline.bot.store.follow_ups import TicketRequests
from faultline.bot.store.store import StoredInvestigation
from faultline.bot.web.rendering import Site
from faultline.bot.web.sessions import visitor_of

MAX_FIELDS, MAX_FIELD_BYTES = 4, 1024
PEOPLE = "people"
"""Stage of the progress lines that say who did what."""
CLICK_WINDOW_S = 60
"""The same wish of the same minute is noted once: people click twice."""


class TicketPage:
    """The handler. A worker makes the ticket."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.tickets = TicketRequests(site.store.engine)

    async def ask(self, request: Request) -> Response:
        """Keep the wish."""
        investigation = await self.site.investigation(request)
        if investigation is None:
            return self.site.no_such_investigation(request)
        form = await request.form(max_files=0, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES)
        blamed = await self._blamed(investigation.id)
        offers = await in_store(
            ticket_offers, investigation, self.site.store, self.site.settings, blamed
        )
        # Only what the page offers counts, whatever the form holds.
        requested_offers = [
            offer for offer in offers if offer.label and offer.value == form.get("target")
        ]
        if not requested_offers:
            sentence = "That is not offered (any more). Go back and load the page again."
            return self.site.problem(request, 400, "Not asked for", sentence)
        offer = requested_offers[0]
        if not await in_store(self.tickets.ask, investigation.id, offer.target, offer.about):
            sentence = "This investigation has no answer that a ticket could hold."
            return self.site.problem(request, 409, "Not yet", sentence)
        await in_store(self._note, request, investigation, offer.what)
        return RedirectResponse(f"/investigations/{investigation.id}#h-onward", 303)

    async def _blamed(self, investigation_id: str) -> str | None:
        """The address of the change that the answer blames."""
        folder, _ = await self.site.folder(investigation_id)
        if folder is None:
            return None
        try:
            return blamed_link(await in_thread(read_diagnosis, folder))
        except (FaultlineError, OSError):
            return None

    def _note(
        self, request: Request, investigation: StoredInvestigation, ticket_label: str
    ) -> None:
        visitor = visitor_of(request)
        who = visitor.name if visitor is not None and visitor.named else "somebody"
        key = f"{PEOPLE}:page:{ticket_label}:{int(time.time()) // CLICK_WINDOW_S}"
        self.site.store.add_progress(
            investigation.id, PEOPLE, f"{who} asked for a {ticket_label}", key=key
        )
