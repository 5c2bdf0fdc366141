"""How much somebody asked for lately, counted by all processes together.

Synchronous, each operation one transaction; callers on an event loop use `in_store`.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine, delete, func, select, text
from sqlalchemy.orm import Session

from faultline.bot.store.memory import storable
from faultline.bot.store.people_tables import PersonActRow

MAX_WHO = 300
RETENTION = timedelta(days=2)
"""More than the longest window in which anything is counted."""
ACTS_LOCK = 0x61637473
"""First half of the PostgreSQL advisory lock under which one person's acts are counted; the second
is the person's."""


class PersonActs:
    """The counts, on the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def count(
        self,
        who: str,
        act: str,
        key: str,
        most: int,
        window: timedelta,
        now: datetime | None = None,
    ) -> bool:
        """Count one more act, unless `most` were counted within the window: then False.

        The same `key` again is counted once, and gets the same answer.
        """
        now = now or datetime.now(UTC)
        row, who, key = (
            PersonActRow,
            storable(who, MAX_WHO),
            hashlib.sha256(f"{act} {key}".encode("utf-8", "replace")).hexdigest(),
        )
        with Session(self._engine) as session, session.begin():
            if self._engine.dialect.name == "postgresql":
                # An advisory lock of two keys takes signed 32-bit integers.
                lock_key = int.from_bytes(hashlib.sha256(who.encode()).digest()[:4], signed=True)
                session.execute(
                    text("SELECT pg_advisory_xact_lock(:room, :who)"),
                    {"room": ACTS_LOCK, "who": lock_key},
                )
            if session.get(row, key) is not None:
                return True
            session.execute(delete(row).where(row.at < now - RETENTION))
            counted = session.scalar(
                select(func.count())
                .select_from(row)
                .where(row.who == who, row.act == act, row.at > now - window)
            )
            if (counted or 0) >= most:
                return False
            session.add(row(key=key, who=who, act=act, at=now))
            return True
