"""The tables of what people asked for lately, and of what Slack says of channels."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Index
from sqlalchemy.orm import Mapped, mapped_column

from faultline.bot.store.models import Base


class PersonActRow(Base):
    """One thing that somebody asked for, kept while a rate counts it. `key` names the request, so
    that one which arrives twice counts once."""

    __tablename__ = "person_acts"
    __table_args__ = (Index("ix_person_acts_who_act_at", "who", "act", "at"),)

    key: Mapped[str] = mapped_column(primary_key=True)
    who: Mapped[str]
    act: Mapped[str]
    at: Mapped[datetime] = mapped_column(index=True)


class SlackChannelRow(Base):
    """What Slack said last of a channel in which investigations are answered. `members` are ids of
    users; null for a channel that everybody in the workspace may read."""

    __tablename__ = "slack_channels"

    channel: Mapped[str] = mapped_column(primary_key=True)
    members: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))
    at: Mapped[datetime]
