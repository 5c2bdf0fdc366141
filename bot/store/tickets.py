"""Which tickets people asked for: the wish is a reply address of the investigation, and a worker
that finds it makes the ticket.

Synchronous, each operation one transaction; callers on an event loop use `in_store`.
"""

from __future__ import annotations

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from bot.store.follow_ups import FollowUps
from bot.store.models import InvestigationRow


class AskedTickets:
    """On the tables of `bot.store`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._follow_ups = FollowUps(engine)

    def ask(self, investigation_id: str, target: str) -> bool:
        """A ticket at this target is to hold the investigation's answer. Asked again, it is brought
        up to date. What was started from another investigation shares its ticket.

        False while there is no answer: a run that is under way has chosen its reply targets.
        """
        address = wish(investigation_id, self._follow_ups.first(investigation_id))
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


def wish(investigation_id: str, first: str) -> str:
    """The address: whose answer, and under which investigation its ticket is known.

    A further investigation takes over the addresses of the one it was started from. This one it
    does not: nobody asked for its answer.
    """
    return f"{investigation_id} {first}"


def wished(address: str | None, investigation_id: str) -> str | None:
    """The investigation under which the ticket is known; None where nobody asked for one."""
    whose, _, first = (address or "").partition(" ")
    return first if whose == investigation_id and first else None
