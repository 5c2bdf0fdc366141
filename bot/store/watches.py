"""The state of watched services: looked at by one worker at a time, alerted once.

Synchronous, each operation one transaction.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Engine, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from faultline.bot.store.deploy_checks import LEASE
from faultline.bot.store.deploy_tables import WatchRow
from faultline.bot.store.sessions import reading


@dataclass(frozen=True)
class WatchState:
    """One watch, as it stands."""

    name: str
    due_at: datetime
    worse_in_a_row: int
    alerted: bool
    checked_at: datetime | None
    headline: str


class Watches:
    """All watches, on the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def keep(self, names: Collection[str], now: datetime) -> None:
        """Have a row for each of these; new ones are due at once."""
        for name in names:
            try:
                with Session(self._engine) as session, session.begin():
                    if session.get(WatchRow, name) is None:
                        session.add(_new(name, now))
            except IntegrityError:  # another worker made it at the same moment
                continue

    def states(self) -> list[WatchState]:
        """All of them, by name."""
        with reading(self._engine) as session:
            return [
                _state(row) for row in session.scalars(select(WatchRow).order_by(WatchRow.name))
            ]

    def claim(self, names: Collection[str], now: datetime) -> WatchState | None:
        """The watch of these that has been due for longest, which nobody else gets until `LEASE` is
        over."""
        row = WatchRow
        free = or_(row.leased_until.is_(None), row.leased_until < now)
        with Session(self._engine) as session, session.begin():
            due = select(row.name).where(row.due_at <= now, row.name.in_(sorted(names)), free)
            watch_name = session.scalar(due.order_by(row.due_at).limit(1))
            if watch_name is None:
                return None
            # Of two that found the same row, one changes it.
            taken = update(row).where(row.name == watch_name, row.due_at <= now, free)
            result = session.execute(taken.values(leased_until=now + LEASE))
            if result.rowcount != 1:  # type: ignore[attr-defined]
                return None
            return _state(session.get_one(row, watch_name))

    def record_look(
        self,
        before: WatchState,
        *,
        worse_in_a_row: int,
        alerted: bool,
        headline: str,
        now: datetime,
        every: timedelta,
    ) -> None:
        """Keep what a look said. One that came late, after another worker's, changes nothing."""
        row = WatchRow
        with Session(self._engine) as session, session.begin():
            session.execute(
                update(row)
                .where(row.name == before.name, row.due_at == before.due_at)
                .values(
                    due_at=now + every,
                    leased_until=None,
                    worse_in_a_row=worse_in_a_row,
                    alerted=alerted,
                    looked_at=now,
                    headline=headline,
                )
            )


def _new(name: str, now: datetime) -> WatchRow:
    return WatchRow(
        name=name,
        due_at=now,
        leased_until=None,
        worse_in_a_row=0,
        alerted=False,
        looked_at=None,
        headline="",
    )


def _state(row: WatchRow) -> WatchState:
    return WatchState(
        row.name, row.due_at, row.worse_in_a_row, row.alerted, row.looked_at, row.headline
    )
