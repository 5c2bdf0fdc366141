"""When something last happened: one row for each, which whatever happens again overwrites.

A process writes its own row, so that no process waits for another one's lock.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Engine, delete, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from faultline.bot.store.models import Base
from faultline.bot.store.sessions import reading

WRITES = "writes "
"""Before the name of a web process: when it last wrote only to see whether that works."""
WATCHDOG = "watchdog "
"""Before the name of a web process: when it last received the alert that always fires."""
HANGING = "hanging "
"""Before the name of a web process: when calls of the database last hung in it."""
RETENTION = timedelta(days=30)


class LastTimeRow(Base):
    """When something last happened."""

    __tablename__ = "last_times"

    name: Mapped[str] = mapped_column(primary_key=True)
    at: Mapped[datetime]


def note_times(engine: Engine, times: dict[str, datetime]) -> None:
    """Remember when these last happened, and forget what did not happen for long."""
    with Session(engine) as session, session.begin():
        for name, at in times.items():
            session.merge(LastTimeRow(name=name, at=at))
        oldest = max(times.values()) - RETENTION
        session.execute(delete(LastTimeRow).where(LastTimeRow.at < oldest))


def last_time(engine: Engine, prefix: str) -> datetime | None:
    """When the last of those whose names begin like this happened."""
    query = select(LastTimeRow.at).where(LastTimeRow.name.startswith(prefix))
    newest = query.order_by(LastTimeRow.at.desc()).limit(1)
    with reading(engine) as session:
        return session.scalar(newest)
