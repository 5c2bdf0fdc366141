"""The tables of people and programs: who they are, where they are signed in, what they did, and
their conversations with the bot."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from faultline.bot.store.tables import Base


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


class CaptureRow(Base):
    """One capture that was asked for. `counts` while the machines were, or may have been, asked
    because of it."""

    __tablename__ = "captures"
    __table_args__ = (Index("ix_captures_job_asked_at", "job", "asked_at"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    job: Mapped[str]
    asked_by: Mapped[str] = mapped_column(Text)
    asked_at: Mapped[datetime]
    requested: Mapped[str] = mapped_column("wanted", Text)
    hosts: Mapped[str] = mapped_column(Text)
    counts: Mapped[bool]
    status: Mapped[str]
    finished_at: Mapped[datetime | None]
    result: Mapped[str | None] = mapped_column(Text)


class LabelRow(Base):
    """What somebody said of an answer. Nothing is overwritten: the newest of an investigation
    holds."""

    __tablename__ = "labels"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    investigation_id: Mapped[str] = mapped_column(
        ForeignKey("investigations.id", ondelete="CASCADE"), index=True
    )
    right: Mapped[bool] = mapped_column("is_right")
    cause: Mapped[str] = mapped_column(Text)
    who: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime]
