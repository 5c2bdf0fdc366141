"""First messages that are due: of investigations that no worker has begun and that nobody has taken
to announce.

Synchronous, each operation one transaction; callers on an event loop use `in_store`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from sqlalchemy import Engine, Select, bindparam, func, select, update
from sqlalchemy.orm import Session

from faultline.bot.store.models import InvestigationRow as Row
from faultline.bot.store.sessions import reading

DUE = (Row.announced_at.is_(None), Row.status == "accepted", Row.quiet_until.is_(None))
"""Not in quiet hours: their channel gets a digest. Those that a worker has started are announced
by their workflow."""


@dataclass(frozen=True)
class Due:
    """An investigation whose first message is due, and the channel that it belongs to."""

    investigation_id: str
    channel: str


@cache
def _first_by_channel() -> Select[str, str]:
    """Built once, as it is asked for all the time."""
    place = func.row_number().over(
        partition_by=Row.channel, order_by=(Row.priority, Row.accepted_at, Row.id)
    )
    ranked = select(Row.id, Row.channel, Row.priority, Row.accepted_at, place.label("place")).where(
        *DUE
    )
    first = ranked.where(Row.channel.not_in(bindparam("busy", expanding=True))).subquery()
    query = select(first.c.id, first.c.channel).where(first.c.place == 1)
    return query.order_by(first.c.priority, first.c.accepted_at, first.c.id).limit(
        bindparam("most")
    )


class Announcing:
    """On the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def due(self, most: int, busy: Collection[str] = ()) -> list[Due]:
        """The first of each channel, the most urgent and then the oldest, but for channels that are
        busy."""
        with reading(self._engine) as session:
            execute = session.execute(_first_by_channel(), {"most": most, "busy": list(busy)})
            return [Due(name, channel) for name, channel in execute]

    def claim(self, investigation_id: str, now: datetime) -> bool:
        """Take it: whether nobody else has, and no worker has begun it meanwhile."""
        statement = (
            update(Row)
            # The conditions again: of two that saw it due, one claims it.
            .where(Row.id == investigation_id, *DUE)
            .values(announced_at=now)
            .returning(Row.id)
        )
        with Session(self._engine) as session, session.begin():
            return session.scalar(statement) is not None
