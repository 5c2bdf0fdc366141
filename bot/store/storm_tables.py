"""The tables of storms: alerts that joined an investigation, what open alerts are about, mutes,
alerts held back."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, Text, true
from sqlalchemy.orm import Mapped, mapped_column

from faultline.bot.store.models import Base


class GroupedAlertRow(Base):
    """An alert that joined an investigation of another one.

    `open_fingerprint` equals `fingerprint` while the alert is open: the database itself refuses to
    have an open alert in two groups.
    """

    __tablename__ = "grouped_alerts"
    __table_args__ = (
        Index("uq_grouped_alerts_once", "investigation_id", "fingerprint", unique=True),
    )

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    investigation_id: Mapped[str] = mapped_column(
        ForeignKey("investigations.id", ondelete="CASCADE")
    )
    fingerprint: Mapped[str] = mapped_column(index=True)
    open_fingerprint: Mapped[str | None] = mapped_column(unique=True)
    alert: Mapped[dict[str, Any]]
    why: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime]
    repeats: Mapped[int] = mapped_column(default=0)
    resolved_at: Mapped[datetime | None]


class AlertKeyRow(Base):
    """What an open alert is about, as keys by which related alerts find it; gone when the alert is
    resolved."""

    __tablename__ = "alert_keys"
    __table_args__ = (Index("ix_alert_keys_key_at", "key", "at"),)

    investigation_id: Mapped[str] = mapped_column(
        ForeignKey("investigations.id", ondelete="CASCADE"), primary_key=True
    )
    fingerprint: Mapped[str] = mapped_column(primary_key=True, index=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    at: Mapped[datetime]


class MuteRow(Base):
    """One mute of one alert, by its fingerprint. It holds until `until`, or `ended_at` where
    somebody ended it.

    With `until_resolved` the alert's resolution ends it. While the alert is critical, it holds only
    with `covers_critical`, which takes an admin.
    """

    __tablename__ = "mutes"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    fingerprint: Mapped[str] = mapped_column(index=True)
    title: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime]
    until: Mapped[datetime] = mapped_column(index=True)
    ended_at: Mapped[datetime | None]
    until_resolved: Mapped[bool] = mapped_column(default=False)
    # A release that does not write the column makes mutes that cover critical alerts.
    covers_critical: Mapped[bool] = mapped_column(default=False, server_default=true())
    who: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    alert_count: Mapped[int] = mapped_column("held", default=0)
    held_at: Mapped[datetime | None]


class SuppressedAlertRow(Base):
    """Alerts that were not investigated, counted: one row for each alert and reason."""

    __tablename__ = "held_alerts"

    key: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    fingerprint: Mapped[str]
    channel: Mapped[str]
    alert: Mapped[dict[str, Any]]
    why: Mapped[str] = mapped_column(Text)
    count: Mapped[int] = mapped_column(default=1)
    first_at: Mapped[datetime]
    last_at: Mapped[datetime] = mapped_column(index=True)
