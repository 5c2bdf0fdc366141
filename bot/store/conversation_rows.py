"""The tables of the conversation: questions with their answers, threads that asked for silence,
further inquiries."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, Text
from sqlalchemy.orm import Mapped, mapped_column

from faultline.bot.store.models import Base


class QuestionRow(Base):
    """One message that asks something of us, from its arrival to the answer that was posted.

    `id` names the message (`channel:ts`), so that Slack's two events about one message are one
    question. `answer` is kept before it is posted: a worker that takes over posts the same words.
    """

    __tablename__ = "questions"
    __table_args__ = (
        Index("ix_questions_thread", "channel", "thread", "asked_at"),
        Index("ix_questions_status", "status", "asked_at"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    event_id: Mapped[str]
    kind: Mapped[str]
    surface: Mapped[str]
    text: Mapped[str] = mapped_column(Text)
    who: Mapped[str]
    channel: Mapped[str]
    thread: Mapped[str]
    ts: Mapped[str]
    about_channel: Mapped[str | None]
    investigation_id: Mapped[str | None] = mapped_column(
        ForeignKey("investigations.id", ondelete="CASCADE")
    )
    status: Mapped[str] = mapped_column(default="asked")
    asked_at: Mapped[datetime]
    dispatched_at: Mapped[datetime | None]
    answered_at: Mapped[datetime | None]
    # Otherwise None is stored as JSON's null, which is not NULL.
    answer: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


class QuestionPostRow(Base):
    """What was posted for a question: `attempted_at` is set before Slack is called, `ref` once its
    answer is known."""

    __tablename__ = "question_posts"

    key: Mapped[str] = mapped_column(primary_key=True)
    question_id: Mapped[str] = mapped_column(
        ForeignKey("questions.id", ondelete="CASCADE"), index=True
    )
    owner: Mapped[str]
    attempted_at: Mapped[datetime]
    ref: Mapped[str | None] = mapped_column(Text)


class QuietThreadRow(Base):
    """A thread in which we speak only when mentioned, because somebody asked for that."""

    __tablename__ = "quiet_threads"

    channel: Mapped[str] = mapped_column(primary_key=True)
    thread: Mapped[str] = mapped_column(primary_key=True)
    who: Mapped[str]
    at: Mapped[datetime]


class FollowUpRow(Base):
    """Why an investigation was started from another one, and what it looks at instead: a window,
    more services."""

    __tablename__ = "further_investigations"

    investigation_id: Mapped[str] = mapped_column(
        ForeignKey("investigations.id", ondelete="CASCADE"), primary_key=True
    )
    key: Mapped[str] = mapped_column(unique=True)
    parent_id: Mapped[str] = mapped_column(index=True)
    window_start: Mapped[datetime | None]
    window_end: Mapped[datetime | None]
    services: Mapped[list[str]] = mapped_column(JSON)
    who: Mapped[str]
