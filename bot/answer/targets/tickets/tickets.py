"""A ticket with an answer in it: made once on somebody's click, then edited as the answer changes.

What is made at the vendor is one text, as other reply targets post it: its first line is the
ticket's title. The ref in the store is `name address`, so that messages can link to it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx

from analysis.errors import FaultlineError
from bot.answer.outcome import Outcome
from bot.answer.targets.one_message import OneMessage
from bot.answer.targets.plain_message import answer_text
from bot.answer.targets.posting import REQUEST_TIMEOUT_S
from bot.answer.writer.markdown_text import shown
from bot.runtime.threads import in_store
from bot.store.store import StoredInvestigation
from bot.store.tickets import AskedTickets, wished
from connectors.settings_types import Section

LONGEST_TITLE = 240
LINK = "Details: "
"""How the last line of an answer begins, before the address of its page."""
NO_REFERENCE = "\u2060"
"""A word joiner, which is not seen."""


@dataclass(frozen=True)
class TicketText:
    """The title, the lines below it, and the answer's page."""

    title: str
    lines: tuple[str, ...]
    page: str

    @classmethod
    def of(cls, text: str) -> TicketText:
        """Of an answer in plain text."""
        title, *lines = text.split("\n")
        page = lines.pop().removeprefix(LINK) if lines and lines[-1].startswith(LINK) else ""
        if len(title) > LONGEST_TITLE:
            title = title[: LONGEST_TITLE - 1] + "…"
        return cls(title, tuple(lines), page)

    @property
    def markdown(self) -> str:
        """As Markdown in which foreign text stays text: no markup, mention, reference or quick
        action."""
        found: list[str] = []
        for line in self.lines:
            if line.startswith("- "):
                found.append(f"- {_inert(line[2:])}")
            elif line.endswith(":"):
                found += ["", f"**{_inert(line)}**", ""]
            else:
                found += ["", _inert(line)]
        if self.page:
            found += ["", f"[The whole answer, with its evidence]({self.page})"]
        return "\n".join(found).strip()


class Tickets(OneMessage):
    """The part that is the same for every tracker. A vendor says how it finds, sends and edits."""

    @classmethod
    @abstractmethod
    async def who(cls, own: Any) -> str:
        """Whom the token belongs to. Raises FaultlineError."""

    @property
    def own(self) -> Any:
        """The section."""
        section = self._declared.section(self._settings)
        assert section is not None, "only configured targets are used"
        return section

    def wanted(self, investigation: StoredInvestigation) -> bool:
        """Whether somebody asked for one."""
        return self._declared.configured(self._settings) and bool(self._first(investigation))

    async def answer(self, outcome: Outcome) -> None:
        """Make the ticket, or bring it up to date; nothing where nobody asked."""
        investigation = outcome.investigation
        first = self._first(investigation)
        if first is None:
            return
        text = answer_text(outcome, self._page(investigation))
        known = replace(investigation, id=first)
        # The project stands in the settings, so the address of a ticket is its key.
        key = self._key(known)
        ref, made_now = await self._once(known, key, key, text)
        if made_now:
            made = AskedTickets(self._store.engine).made
            await in_store(made, investigation.id)
        else:
            await self._said("edit", self.edit(key, ref, text))

    def _first(self, investigation: StoredInvestigation) -> str | None:
        address = investigation.reply_to.others.get(self._declared.own_name)
        return wished(address, investigation.id)


async def call(
    url: str, headers: Mapping[str, str], method: str, path: str, **more: Any
) -> httpx.Response:
    """One request to a tracker. Raises what httpx raises."""
    async with httpx.AsyncClient(headers=headers, timeout=REQUEST_TIMEOUT_S) as http:
        return (await http.request(method, f"{url}{path}", **more)).raise_for_status()


async def asked_who(label: str, request: Any) -> Any:
    """The JSON of the question who we are. Raises FaultlineError."""
    try:
        return (await request).json()
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        raise FaultlineError(f"{label}: the token was refused with {status}") from error
    except (httpx.HTTPError, ValueError) as error:
        raise FaultlineError(f"{label}: no usable answer ({type(error).__name__})") from error


def token_of(own: Section) -> str:
    """The token of a configured section."""
    token: str = own.token.get_secret_value()  # type: ignore[attr-defined]
    return token


def ref_of(name: str, url: str) -> str:
    """As the store keeps it."""
    return f"{name} {url}"


def name_in(ref: str) -> str:
    """The ticket's name at its vendor, such as `OPS-12`."""
    return ref.partition(" ")[0]


def marker(key: str) -> str:
    """A line that Markdown does not show, by which a ticket is found again."""
    return f"<!-- {key} -->"


def _inert(line: str) -> str:
    # No mention is left in it, but `#12` would still refer to an issue.
    escaped = shown(line).replace("#", "#" + NO_REFERENCE)
    # GitLab does what a line says that begins with a slash.
    return NO_REFERENCE + escaped if escaped.startswith("/") else escaped
