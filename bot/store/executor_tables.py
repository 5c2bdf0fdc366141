"""The table of workers' signs of life."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger
from sqlalchemy.orm import Mapped, mapped_column

from faultline.bot.store.models import Base


class ExecutorRow(Base):
    """A worker on PostgreSQL, and when it last gave a sign of life, by the database's clock.

    Whoever declares it lost raises `epoch`; the worker, which knows its own, then ends.
    """

    __tablename__ = "executors"

    id: Mapped[str] = mapped_column(primary_key=True)
    epoch: Mapped[int] = mapped_column(BigInteger)
    host: Mapped[str]
    role: Mapped[str]
    beat_at: Mapped[datetime]
