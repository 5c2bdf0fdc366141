"""The tables of those who look: who they are, where they are signed in, what they looked at."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from faultline.bot.store.models import Base


class VisitorRow(Base):
    """Somebody who signed in, by the permanent name that a provider gives them (`issuer` and
    `subject`)."""

    __tablename__ = "visitors"
    __table_args__ = (UniqueConstraint("issuer", "subject", name="uq_visitors_issuer_subject"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    issuer: Mapped[str]
    subject: Mapped[str]
    who: Mapped[str] = mapped_column(Text)
    name: Mapped[str] = mapped_column(Text)
    first_at: Mapped[datetime]
    last_at: Mapped[datetime]


class SessionRow(Base):
    """A login in one browser. `id` is a hash of what the browser's cookie holds, so that reading
    this opens nothing.

    `proof` shows that the settings it was made under still hold; `provider_session` is the
    provider's own name of it.
    """

    __tablename__ = "sessions"

    id: Mapped[str] = mapped_column(primary_key=True)
    visitor_id: Mapped[int] = mapped_column(
        ForeignKey("visitors.id", ondelete="CASCADE"), index=True
    )
    proof: Mapped[str]
    provider_session: Mapped[str | None] = mapped_column(index=True)
    email: Mapped[str] = mapped_column(Text)
    groups: Mapped[dict[str, Any]] = mapped_column("belongs_to")
    address: Mapped[str]
    created_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)


class VisitRow(Base):
    """One thing that somebody did on the pages, or was refused. It outlives both visitor and
    investigation."""

    __tablename__ = "visits"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    at: Mapped[datetime] = mapped_column(index=True)
    who: Mapped[str] = mapped_column(Text, index=True)
    name: Mapped[str] = mapped_column(Text)
    role: Mapped[str]
    action: Mapped[str]
    investigation_id: Mapped[str | None] = mapped_column(index=True)
    address: Mapped[str]
    status: Mapped[int]
    note: Mapped[str] = mapped_column(Text)
