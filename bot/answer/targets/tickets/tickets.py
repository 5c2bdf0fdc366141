"""A ticket with an answer in it: made once on somebody's click, then edited as the answer changes.

What is made at the vendor is one text, as other reply targets post it: its first line is the
ticket's title. The ref in the store is `name address`, so that messages can link to it.
"""

from __future__ import annotations

from dataclasses import replace

from faultline.bot.answer.outcome import Outcome
from faultline.bot.answer.targets.plain_message import answer_text
from faultline.bot.answer.targets.tickets.target import TicketTarget
from faultline.bot.answer.targets.vendor_message import VendorMessage
from faultline.bot.runtime.threads import in_store
from faultline.bot.store.follow_ups import TicketRequests, Wish, wished
from faultline.bot.store.store import StoredInvestigation


class Tickets(VendorMessage):
    """The part that is the same for every tracker. A vendor says how it finds, sends and edits."""

    def expects_answer(self, investigation: StoredInvestigation) -> bool:
        """Whether somebody asked for one."""
        return self._declared.configured(self._settings) and self._wish(investigation) is not None

    async def answer(self, outcome: Outcome) -> None:
        """Make the ticket, or bring it up to date; nothing where nobody asked."""
        investigation = outcome.investigation
        wish = self._wish(investigation)
        if wish is None:
            return
        text = self._text(outcome, wish)
        first_investigation = replace(investigation, id=wish.first)
        # The project stands in the settings, so the address of a ticket is its key.
        key = self._ticket_key(wish)
        address = wish.about or key
        ref, made_now = await self._once(first_investigation, key, address, text)
        if made_now:
            made = TicketRequests(self._store.engine).made
            await in_store(made, investigation.id)
        else:
            await self._vendor_answer("edit", self.edit(address, ref, text))

    def _text(self, outcome: Outcome, wish: Wish) -> str:
        """What the ticket is to say."""
        return answer_text(outcome, self._page(outcome.investigation))

    def _ticket_key(self, wish: Wish) -> str:
        declared = self._declared
        assert isinstance(declared, TicketTarget)
        return declared.ticket_key(wish)

    def _wish(self, investigation: StoredInvestigation) -> Wish | None:
        address = investigation.reply_to.other_addresses.get(self._declared.target_name)
        return wished(address, investigation.id)


def ref_of(name: str, url: str) -> str:
    """As the store keeps it."""
    return f"{name} {url}"


def name_in(ref: str) -> str:
    """The ticket's name at its vendor, such as `OPS-12`."""
    return ref.partition(" ")[0]


def marker(key: str) -> str:
    """A line that Markdown does not show, by which a ticket is found again."""
    return f"<!-- {key} -->"
