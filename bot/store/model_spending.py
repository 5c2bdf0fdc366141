"""What the language model took, by day and channel; days are kept for a month.

Synchronous, each operation one transaction; callers on an event loop use `in_store`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from faultline.bot.store.memory import storable
from faultline.bot.store.sessions import reading
from faultline.bot.store.spending_tables import ModelSpendingRow

RETENTION = timedelta(days=31)
LONGEST_CHANNEL = 200


@dataclass(frozen=True)
class Spent:
    """Tokens sent and received, and US dollars."""

    tokens: int = 0
    cost_usd: float = 0.0


def _now() -> datetime:
    return datetime.now(UTC)


class ModelSpending:
    """The counts of all workers, on the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine, now: Callable[[], datetime] = _now) -> None:
        self._engine = engine
        self._now = now

    def add(self, channel: str, tokens: int, cost_usd: float) -> tuple[Spent, Spent]:
        """Count one answer; gives what `spent` gives, with it."""
        row, day = ModelSpendingRow, self._day()
        is_postgres = self._engine.dialect.name == "postgresql"
        insert = (postgresql.insert if is_postgres else sqlite.insert)(row)
        # A negative count must not lower the sum.
        counted = {"tokens": max(0, tokens), "cost_usd": max(0.0, cost_usd)}
        new = {"day": day, "channel": storable(channel, LONGEST_CHANNEL), **counted}
        more = {
            "tokens": row.tokens + insert.excluded.tokens,
            "cost_usd": row.cost_usd + insert.excluded.cost_usd,
        }
        with Session(self._engine) as session, session.begin():
            # One statement adds, so that workers that count at once lose nothing.
            session.execute(
                insert.values(new).on_conflict_do_update(
                    index_elements=["day", "channel"], set_=more
                )
            )
            session.execute(delete(row).where(row.day < self._day(RETENTION)))
            return self._read(session, channel)

    def spent(self, channel: str) -> tuple[Spent, Spent]:
        """What today took so far: all of it, and the channel's part."""
        with reading(self._engine) as session:
            return self._read(session, channel)

    def _read(self, session: Session, channel: str) -> tuple[Spent, Spent]:
        row = ModelSpendingRow
        sums = select(func.sum(row.tokens), func.sum(row.cost_usd)).where(row.day == self._day())
        channel_sums = sums.where(row.channel == storable(channel, LONGEST_CHANNEL))
        day, part = (session.execute(query).one() for query in (sums, channel_sums))
        return Spent(int(day[0] or 0), float(day[1] or 0)), Spent(
            int(part[0] or 0), float(part[1] or 0)
        )

    def _day(self, back: timedelta = timedelta()) -> str:
        return (self._now() - back).date().isoformat()
