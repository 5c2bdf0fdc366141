"""The table of changes that were reported to the bot."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Text
from sqlalchemy.orm import Mapped, mapped_column

from faultline.bot.store.models import Base


class ReportedChangeRow(Base):
    """One change as its reporter told it; the same id again replaces it. `place` holds labels such
    as environment and cluster."""

    __tablename__ = "reported_changes"

    id: Mapped[str] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(index=True)
    received_at: Mapped[datetime]
    service: Mapped[str]
    kind: Mapped[str]
    title: Mapped[str] = mapped_column(Text)
    author: Mapped[str] = mapped_column(Text)
    link: Mapped[str] = mapped_column(Text)
    files: Mapped[str] = mapped_column(Text)
    diff: Mapped[str] = mapped_column(Text)
    place: Mapped[dict[str, Any]]
