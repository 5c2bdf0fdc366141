"""The tables of the doors for programs: their tokens, and what they asked for under a key."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Text
from sqlalchemy.orm import Mapped, mapped_column

from faultline.bot.store.models import Base


class ApiTokenRow(Base):
    """A token for programs. `digest` is a hash of it, so that reading this opens nothing."""

    __tablename__ = "api_tokens"

    id: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str]
    name: Mapped[str] = mapped_column(Text)
    role: Mapped[str]
    team: Mapped[str]
    investigations_per_hour: Mapped[int]
    calls_per_minute: Mapped[int]
    made_by: Mapped[str] = mapped_column(Text)
    made_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)
    used_at: Mapped[datetime | None]


class RequestKeyRow(Base):
    """What was asked for under an idempotency key, as a hash: the same key with something else is
    refused."""

    __tablename__ = "asked_requests"

    key: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str]
    at: Mapped[datetime] = mapped_column(index=True)
