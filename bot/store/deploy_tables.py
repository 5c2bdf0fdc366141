"""The tables of checks: of deploys, asked for by programs, and of watched services."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Text
from sqlalchemy.orm import Mapped, mapped_column

from faultline.bot.store.models import Base


class DeployCheckRow(Base):
    """One deploy that is watched. `asked` is what was asked for, `verdict` the last one, both as
    JSON."""

    __tablename__ = "deploy_checks"

    id: Mapped[str] = mapped_column(primary_key=True)
    asked: Mapped[dict[str, Any]]
    team: Mapped[str]
    asked_by: Mapped[str] = mapped_column(Text)
    asked_at: Mapped[datetime] = mapped_column(index=True)
    due_at: Mapped[datetime | None] = mapped_column(index=True)
    """When it is looked at next; null once it is decided."""
    leased_until: Mapped[datetime | None]
    """Until then a worker is looking."""
    looks_done: Mapped[int]
    verdict: Mapped[dict[str, Any] | None]


class WatchRow(Base):
    """The state of one `[[watch]]`, by its name."""

    __tablename__ = "watches"

    name: Mapped[str] = mapped_column(primary_key=True)
    due_at: Mapped[datetime] = mapped_column(index=True)
    leased_until: Mapped[datetime | None]
    worse_in_a_row: Mapped[int]
    alerted: Mapped[bool]
    """Whether an alert was raised that has not been resolved."""
    looked_at: Mapped[datetime | None]
    headline: Mapped[str] = mapped_column(Text)
