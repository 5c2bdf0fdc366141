"""A draft that reverts the change an answer blames: made once on somebody's click, never merged.

What the code host cannot revert is refused with a reason, which the investigation's history shows.
Afterwards only the text is edited: title, branch and state are people's.
"""

from __future__ import annotations

from dataclasses import replace

from faultline.analysis.errors import ConnectorError
from faultline.bot.answer.foreign_text import single_line
from faultline.bot.answer.outcome import Outcome
from faultline.bot.answer.targets.text_parts import TextParts
from faultline.bot.answer.targets.tickets.revert_target import (
    BlamedChange,
    RevertTarget,
    blamed_link,
)
from faultline.bot.answer.targets.tickets.tickets import Tickets, marker
from faultline.bot.store.follow_ups import Wish

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
