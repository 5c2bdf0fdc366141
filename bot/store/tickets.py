"""Which tickets people asked for: the wish is a reply address of the investigation, and a worker
that finds it makes the ticket.

Synchronous, each operation one transaction; callers on an event loop use `in_store`.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from faultline.bot.store.follow_ups import FollowUps
from faultline.bot.store.models import InvestigationRow


@dataclass(frozen=True)
class Wish:
    """What somebody asked for. `first` is the investigation under which the ticket is known,
    `about` what else it is made from, such as the change to revert."""

    first: str
    about: str = ""


class TicketRequests:
    """On the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._follow_ups = FollowUps(engine)

    def ask(self, investigation_id: str, target: str, about: str = "") -> bool:
        """A ticket at this target is to hold the investigation's answer. Asked again, it is brought
        up to date. What was started from another investigation shares its ticket. `about` holds
        no blank.

        False while there is no answer: a run that is under way has chosen its reply targets.
        """
        address = wish(investigation_id, self._follow_ups.first(investigation_id), about)
        with Session(self._engine) as session, session.begin():
            row = session.get_one(InvestigationRow, investigation_id, with_for_update=True)
            if row.status != "done":
                return False
            row.reply_addresses = {**(row.reply_addresses or {}), target: address}
            # A worker posts what its messages do not show yet.
            row.revision += 1
        return True

    def made(self, investigation_id: str) -> None:
        """There is a ticket now: other messages show where."""
        with Session(self._engine) as session, session.begin():
            row = session.get_one(InvestigationRow, investigation_id, with_for_update=True)
            row.revision += 1


def wish(investigation_id: str, first: str, about: str = "") -> str:
    """The address: whose answer, under which investigation its ticket is known, and what about.

    A further investigation takes over the addresses of the one it was started from. This one it
    does not: nobody asked for its answer.
    """
    return f"{investigation_id} {first} {about}".rstrip()


def wished(address: str | None, investigation_id: str) -> Wish | None:
    """What the address asks for; None where nobody asked for a ticket with this answer."""
    whose, *fields = (address or "").split(" ")
    return Wish(*fields[:2]) if whose == investigation_id and fields else None
