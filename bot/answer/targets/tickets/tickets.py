"""A ticket with an answer in it: made once on somebody's click, then edited as the answer changes.

What is made at the vendor is one text, as other reply targets post it: its first line is the
ticket's title. The ref in the store is `name address`, so that messages can link to it.
"""

from __future__ import annotations

from dataclasses import replace

from faultline.analysis.errors import ConnectorError
from faultline.bot.answer.foreign_text import single_line
from faultline.bot.answer.outcome import Outcome
from faultline.bot.answer.targets.message_target import VendorMessage
from faultline.bot.answer.targets.plain_message import TextParts, answer_text
from faultline.bot.answer.targets.tickets.revert_target import (
    BlamedChange,
    RevertTarget,
    blamed_link,
)
from faultline.bot.answer.targets.tickets.target import TicketTarget
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


# A draft that reverts the change an answer blames: made once on somebody's click, never merged.
#
# What the code host cannot revert is refused with a reason, which the investigation's history
# shows. Afterwards only the text is edited: title, branch and state are people's.

NO_LONGER = "The answer no longer blames this change. Check it before you merge this."
DRAFT = (
    "This is a draft that somebody asked for in Faultline, under the answer below. Faultline never "
    "merges it: review it, and decide whether to roll back instead."
)
MAX_REASON = 200


class Reverts(Tickets):
    """The part that is the same for every code host."""

    def _text(self, outcome: Outcome, wish: Wish) -> str:
        text = super()._text(outcome, wish)
        if outcome.answer and blamed_link(outcome.answer.diagnosis) != wish.about:
            return f"{NO_LONGER}\n{text}"
        return text

    def _change(self, address: str) -> BlamedChange:
        declared = self._declared
        assert isinstance(declared, RevertTarget)
        change = declared.change_at(address, self._settings)
        if change is None:
            raise self._refused("the settings no longer allow a revert in this repository")
        return change

    def _refused(self, why: str, *, unchanged: bool = True) -> ConnectorError:
        """An error for people. Nothing is tried again before somebody clicks."""
        phrase = f"no revert was drafted: {single_line(why, MAX_REASON).rstrip('.')}"
        return ConnectorError(self.name, "revert", phrase, unchanged=unchanged)


def body_of(text: str, link: str) -> str:
    """The description, in Markdown: what it reverts, and the answer."""
    parts = TextParts.of(text)
    # The draft's title is people's, so that of the answer goes into the text.
    answer = replace(parts, lines=(parts.title, *parts.lines)).markdown
    return f"Reverts {link}\n\n{DRAFT}\n\n{answer}\n\n{mark_of(link)}"


def mark_of(link: str) -> str:
    """The line by which a draft for this change is found again."""
    return marker(f"faultline reverts {link}")
