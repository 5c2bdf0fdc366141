"""The tables of investigations and of what belongs to them: alerts that joined them or were held
back, their posts, what was remembered of them; and of checks, changes, workers and spending. The
tables of people and programs are in `faultline.bot.store.people_tables`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Float,
    ForeignKey,
    Index,
    MetaData,
    SmallInteger,
    String,
    Text,
    TypeDecorator,
    text,
    true,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from faultline.bot.policy.priority import USUAL


class UtcDateTime(TypeDecorator[datetime]):
    """A UTC time; SQLite, which forgets time zones, gets it without one and gives it back with
    one."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """To UTC, without zone for SQLite."""
        if value is None:
            return None
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Back with the zone."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """Names every constraint, so that migrations can change it on both databases."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {datetime: UtcDateTime, dict[str, Any]: JSON, str: String, float: Float}  # noqa: RUF012


def only_where(condition: str) -> dict[str, Any]:
    """The arguments of an index that holds but the rows of the condition, on both databases."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


class InvestigationRow(Base):
    """One investigation, from the accepted alert to its answer.

    `open_fingerprint` equals `fingerprint` while the alert is open, so that the database itself
    refuses a second investigation of the same open alert; it is null afterwards. `automatic`: no
    person asked for it. `reply_addresses` are those at targets without a column, by target.
    `revision` counts changes its message must show, `notified_revision` those it was
    edited for; `wants_run` asks for one more run, and `runs` counts those. `team` and
    `priority` order what waits (`dispatched_at` is null) for a worker; `announced_at` is set once
    its first message was posted, or left to its workflow. `culprit` and `explained` are those
    of the answer, for lists that do not read its case. `joined_id` is the investigation that it
    became a part of (`faultline.bot.store.late_joins`).
    """

    __tablename__ = "investigations"
    __table_args__ = (
        Index("ix_investigations_slack_thread", "slack_channel", "slack_thread"),
        Index("ix_investigations_channel_accepted_at", "channel", "accepted_at"),
        Index("ix_investigations_status_dispatched_at", "status", "dispatched_at"),
        Index(
            "ix_investigations_waiting",
            "priority",
            "team",
            "accepted_at",
            "id",
            **only_where("dispatched_at IS NULL"),
        ),
        Index(
            "ix_investigations_unannounced",
            "channel",
            "priority",
            "accepted_at",
            **only_where("announced_at IS NULL"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    fingerprint: Mapped[str] = mapped_column(index=True)
    open_fingerprint: Mapped[str | None] = mapped_column(unique=True)
    alert: Mapped[dict[str, Any]]
    question: Mapped[str | None] = mapped_column(Text)
    status: Mapped[str] = mapped_column(default="accepted", index=True)
    repeats: Mapped[int] = mapped_column(default=0)
    slack_channel: Mapped[str | None]
    slack_thread: Mapped[str | None]
    pagerduty_incident: Mapped[str | None]
    # Otherwise None is stored as JSON's null, which is not NULL.
    reply_addresses: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    accepted_at: Mapped[datetime] = mapped_column(index=True)
    dispatched_at: Mapped[datetime | None]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    resolved_at: Mapped[datetime | None]
    verdict: Mapped[str | None]
    confidence: Mapped[float | None]
    headline: Mapped[str | None] = mapped_column(Text)
    culprit: Mapped[str | None] = mapped_column(Text)
    explained: Mapped[bool | None]
    automatic: Mapped[bool] = mapped_column(default=True)
    channel: Mapped[str] = mapped_column(default="")
    quiet_until: Mapped[datetime | None]
    digested_at: Mapped[datetime | None]
    members: Mapped[int] = mapped_column(default=0)
    surplus: Mapped[int] = mapped_column(default=0)
    # The columns keep their older names, which the previous release still reads.
    revision: Mapped[int] = mapped_column("changes", default=0)
    notified_revision: Mapped[int] = mapped_column("told", default=0)
    notified_at: Mapped[datetime | None] = mapped_column("told_at")
    wants_run: Mapped[bool] = mapped_column(default=False)
    runs: Mapped[int] = mapped_column(default=0)
    team: Mapped[str] = mapped_column(default="")
    priority: Mapped[int] = mapped_column(SmallInteger, default=USUAL)
    announced_at: Mapped[datetime | None]
    joined_id: Mapped[str | None]


class DeliveryRow(Base):
    """One webhook delivery or Slack event that was accepted; the vendor's id makes a second one a
    duplicate."""

    __tablename__ = "deliveries"

    source: Mapped[str] = mapped_column(primary_key=True)
    delivery_id: Mapped[str] = mapped_column(primary_key=True)
    investigation_id: Mapped[str | None]
    received_at: Mapped[datetime] = mapped_column(index=True)


class ProgressRow(Base):
    """One line of live progress."""

    __tablename__ = "progress"
    __table_args__ = (Index("ix_progress_investigation_id_id", "investigation_id", "id"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    investigation_id: Mapped[str] = mapped_column(
        ForeignKey("investigations.id", ondelete="CASCADE")
    )
    key: Mapped[str] = mapped_column(unique=True)
    at: Mapped[datetime]
    stage: Mapped[str]
    text: Mapped[str] = mapped_column(Text)


class PostRow(Base):
    """One post outside: `attempted_at` is set before the vendor is called, `ref` once its answer is
    known."""

    __tablename__ = "posts"

    key: Mapped[str] = mapped_column(primary_key=True)
    investigation_id: Mapped[str] = mapped_column(
        ForeignKey("investigations.id", ondelete="CASCADE"), index=True
    )
    owner: Mapped[str]
    attempted_at: Mapped[datetime]
    posted_at: Mapped[datetime | None]
    ref: Mapped[str | None] = mapped_column(Text, index=True)


class RememberedRow(Base):
    """What is needed to find an investigation again; it goes with the investigation.

    `alike` is equal for alerts of the same words on the same service, whatever their vendor calls
    each of them. `words` are those of `faultline.bot.policy.words`, one blank between two: the
    full-text index, which the migration makes in the database's own way, is on them.
    """

    __tablename__ = "remembered"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    investigation_id: Mapped[str] = mapped_column(
        ForeignKey("investigations.id", ondelete="CASCADE"), unique=True
    )
    at: Mapped[datetime] = mapped_column(index=True)
    fingerprint: Mapped[str] = mapped_column(index=True)
    alike: Mapped[str] = mapped_column(index=True)
    content: Mapped[dict[str, Any]]
    words: Mapped[str] = mapped_column(Text)


class RememberedServiceRow(Base):
    """A service that an investigation was about."""

    __tablename__ = "remembered_services"

    investigation_id: Mapped[str] = mapped_column(
        ForeignKey("remembered.investigation_id", ondelete="CASCADE"), primary_key=True
    )
    service: Mapped[str] = mapped_column(primary_key=True, index=True)


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


class LearnedCallRow(Base):
    """One source's word of one call, in one environment, cluster and region, for one team. `id` is
    made of these; the text "" says that the alert did not say. `investigation_id` is the last that
    saw it."""

    __tablename__ = "learned_calls"

    id: Mapped[str] = mapped_column(primary_key=True)
    team: Mapped[str]
    environment: Mapped[str]
    cluster: Mapped[str]
    region: Mapped[str]
    caller: Mapped[str]
    callee: Mapped[str]
    source: Mapped[str]
    last_seen: Mapped[datetime] = mapped_column(index=True)
    investigation_id: Mapped[str] = mapped_column(index=True)


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
    before: Mapped[str] = mapped_column(Text, server_default="")
    after: Mapped[str] = mapped_column(Text, server_default="")


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


class LastTimeRow(Base):
    """When something last happened."""

    __tablename__ = "last_times"

    name: Mapped[str] = mapped_column(primary_key=True)
    at: Mapped[datetime]


class FleetHostRow(Base):
    """A machine of the job that an investigation was about; it goes with the investigation.

    `fault` is "" for one that the answer does not blame, `part` what it blames of it, such as
    `gpu3`.
    """

    __tablename__ = "fleet_hosts"

    investigation_id: Mapped[str] = mapped_column(
        ForeignKey("investigations.id", ondelete="CASCADE"), primary_key=True
    )
    host: Mapped[str] = mapped_column(primary_key=True, index=True)
    at: Mapped[datetime] = mapped_column(index=True)
    job: Mapped[str]
    fault: Mapped[str]
    part: Mapped[str]


class ModelSpendingRow(Base):
    """One day (UTC, `2026-11-23`) of one channel; "" for what belongs to none."""

    __tablename__ = "model_spending"

    day: Mapped[str] = mapped_column(primary_key=True)
    channel: Mapped[str] = mapped_column(primary_key=True)
    tokens: Mapped[int] = mapped_column(BigInteger)
    cost_usd: Mapped[float]
