"""An investigation's messages outside: where it is answered, between `ReplyTo` and the columns of
its row; first messages that are due, of investigations that no worker has begun and that nobody has
taken to announce; what is due after an answer; and whose message it is, by its id or its thread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypedDict

from sqlalchemy import ColumnElement, Engine, Select, bindparam, func, or_, select, update
from sqlalchemy.orm import Session

from faultline.bot.policy.values import ENDED, ReplyTo
from faultline.bot.store.connections import reading
from faultline.bot.store.tables import InvestigationRow as Row
from faultline.bot.store.tables import PostRow

MAX_ADDRESS = 500
"""Characters of an address; a longer one is ignored."""


class AddressColumns(TypedDict):
    """The columns of an investigation that hold its addresses."""

    slack_channel: str | None
    slack_thread: str | None
    pagerduty_incident: str | None
    reply_addresses: dict[str, str] | None


def address_columns(reply_to: ReplyTo) -> AddressColumns:
    """What a new row holds."""
    return {
        "slack_channel": reply_to.slack_channel,
        "slack_thread": reply_to.slack_thread,
        "pagerduty_incident": reply_to.pagerduty_incident,
        "reply_addresses": _short_addresses(reply_to),
    }


def reply_to_of(row: Row) -> ReplyTo:
    """From the row."""
    return ReplyTo(
        row.slack_channel, row.slack_thread, row.pagerduty_incident, dict(row.reply_addresses or {})
    )


def adopt_addresses(row: Row, reply_to: ReplyTo) -> None:
    """Take from an alert that joins where the investigation has no address yet.

    Slack's is not taken: the answer stays in the thread in which it was announced.
    """
    row.pagerduty_incident = row.pagerduty_incident or reply_to.pagerduty_incident
    if reply_to.other_addresses:
        # The investigation's own addresses come last, so that they stay.
        row.reply_addresses = {**(_short_addresses(reply_to) or {}), **(row.reply_addresses or {})}


def _short_addresses(reply_to: ReplyTo) -> dict[str, str] | None:
    addresses_by_target = {}
    for target, address in reply_to.other_addresses.items():
        if address and len(address) <= MAX_ADDRESS:
            addresses_by_target[target] = address
    return addresses_by_target or None


def answered_at(target: str, address: str) -> ColumnElement[bool]:
    """The condition on rows: answered at this address of a target without a column."""
    addresses: Any = Row.reply_addresses
    condition: ColumnElement[bool] = addresses[target].as_string() == address
    return condition


DUE = (
    Row.announced_at.is_(None),
    Row.status == "accepted",
    Row.quiet_until.is_(None),
)
"""Not in quiet hours: their channel gets a digest. Those that a worker has started are announced
by their workflow."""


@dataclass(frozen=True)
class Due:
    """An investigation whose first message is due, and the channel that it belongs to."""

    investigation_id: str
    channel: str


@cache
def _first_by_channel() -> Select[str, str]:
    """Built once, as it is asked for all the time."""
    place = func.row_number().over(
        partition_by=Row.channel,
        order_by=(Row.priority, Row.accepted_at, Row.id),
    )
    ranked = select(
        Row.id,
        Row.channel,
        Row.priority,
        Row.accepted_at,
        place.label("place"),
    ).where(*DUE)
    first = ranked.where(Row.channel.not_in(bindparam("busy", expanding=True))).subquery()
    query = select(first.c.id, first.c.channel).where(first.c.place == 1)
    return query.order_by(first.c.priority, first.c.accepted_at, first.c.id).limit(
        bindparam("most")
    )


class Announcing:
    """On the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def due(self, most: int, busy: Collection[str] = ()) -> list[Due]:
        """The first of each channel, the most urgent and then the oldest, but for channels that are
        busy."""
        with reading(self._engine) as session:
            execute = session.execute(_first_by_channel(), {"most": most, "busy": list(busy)})
            return [Due(name, channel) for name, channel in execute]

    def claim(self, investigation_id: str, now: datetime) -> bool:
        """Take it: whether nobody else has, and no worker has begun it meanwhile."""
        statement = (
            update(Row)
            # The conditions again: of two that saw it due, one claims it.
            .where(Row.id == investigation_id, *DUE)
            .values(announced_at=now)
            .returning(Row.id)
        )
        with Session(self._engine) as session, session.begin():
            return session.scalar(statement) is not None


EDIT_EVERY = timedelta(seconds=10)
"""A message is edited at most this often for alerts that join, unless a reply target wants it less
often (`faultline.bot.policy.reply_targets.ReplyLimits`)."""
DIGEST_WAITS = timedelta(minutes=15)
"""A digest waits this long for investigations of its last minutes."""
MOST = 100


@dataclass(frozen=True)
class MessageRevision:
    """An investigation whose messages are to be edited, and the revision that they will show."""

    investigation_id: str
    revision: int


@dataclass(frozen=True)
class Rerun:
    """An investigation that is to be run again; `number` counts its runs."""

    investigation_id: str
    number: int


@dataclass(frozen=True)
class DueDigest:
    """A channel whose quiet hours are over, and what was investigated in them, the oldest first."""

    channel: str
    investigation_ids: tuple[str, ...]


@cache
def _due_revisions() -> Select[str, int]:
    """Like the next two built once, as they are asked for all the time."""
    rested = or_(
        Row.notified_at.is_(None),
        Row.notified_at <= bindparam("before"),
        Row.notified_at > bindparam("after"),
    )
    query = select(Row.id, Row.revision).where(Row.revision > Row.notified_revision, rested)
    return query.where(Row.status.in_(ENDED), Row.wants_run.is_(False)).order_by(Row.id).limit(MOST)


@cache
def _to_rerun() -> Select[str, int]:
    return (
        select(Row.id, Row.runs)
        .where(Row.wants_run, Row.status.in_(ENDED))
        .order_by(Row.id)
        .limit(MOST)
    )


@cache
def _due_digests() -> Select[str, str, str, datetime | None]:
    query = select(
        Row.channel,
        Row.id,
        Row.status,
        Row.quiet_until,
    )
    query = query.where(Row.quiet_until <= bindparam("now"), Row.digested_at.is_(None))
    return query.order_by(Row.accepted_at, Row.id).limit(MOST)


class DueUpdates:
    """On the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine, *, edit_every: timedelta = EDIT_EVERY) -> None:
        self._engine = engine
        self._edit_every = edit_every

    def revisions(self, now: datetime) -> list[MessageRevision]:
        """Investigations that ended and changed since their messages were last edited.

        One that is being run again is not among them: that run answers.
        """
        # A clock that was set back must not hold an edit for longer, hence `after`.
        rested = {"before": now - self._edit_every, "after": now + self._edit_every}
        with self._reading() as session:
            rows = session.execute(_due_revisions(), rested)
            return [MessageRevision(name, revision) for name, revision in rows]

    def mark_notified(self, revision: MessageRevision, now: datetime) -> None:
        """Its edits are queued; what joined since then is due again."""
        conditions = (
            Row.id == revision.investigation_id,
            # Of two workers that queued edits, the one with the older revision changes nothing.
            Row.notified_revision < revision.revision,
        )
        notified = {
            Row.notified_revision: revision.revision,
            Row.notified_at: now,
        }
        with Session(self._engine) as session, session.begin():
            session.execute(update(Row).where(*conditions).values(notified))

    def to_rerun(self) -> list[Rerun]:
        """Investigations that ended and are to be run again. One is named until its run has
        begun."""
        with self._reading() as session:
            return [Rerun(name, runs + 1) for name, runs in session.execute(_to_rerun())]

    def due_digests(self, now: datetime) -> list[DueDigest]:
        """Digests of channels whose quiet hours ended, once all in them is answered or has been
        waited for."""
        ids_by_channel: defaultdict[str, list[str]] = defaultdict(list)
        waiting: set[str] = set()
        with self._reading() as session:
            for channel, investigation_id, status, until in session.execute(
                _due_digests(), {"now": now}
            ):
                ids_by_channel[channel].append(investigation_id)
                if status not in ENDED and until is not None and now - until < DIGEST_WAITS:
                    waiting.add(channel)
        return [
            DueDigest(channel, tuple(ids))
            for channel, ids in ids_by_channel.items()
            if channel not in waiting
        ]

    def digested(self, digest: DueDigest, now: datetime) -> None:
        """The digest is posted."""
        ids = Row.id.in_(digest.investigation_ids)
        with Session(self._engine) as session, session.begin():
            session.execute(update(Row).where(ids).values(digested_at=now))

    def _reading(self) -> Session:
        return reading(self._engine)


LOOKBACK = timedelta(days=30)
"""An answer without its own thread is only looked for among posts that are not older."""


def investigation_posted_as(engine: Engine, target: str, name: str) -> str | None:
    """The investigation whose message at this target has that id: its ref begins with it."""
    query = select(PostRow.investigation_id).where(*_posted_as(target, name)).limit(1)
    with reading(engine) as session:
        return session.scalar(query)


def investigations_in(
    engine: Engine, target: str, address: str, root: str, limit: int = 20
) -> Sequence[str]:
    """The investigations of a thread, the newest first: the one whose message begins it, and those
    whose answers go to its address. `root` is "" where no message begins it."""
    here: ColumnElement[bool] = (Row.accepted_at >= datetime.now(UTC) - LOOKBACK) & answered_at(
        target, address
    )
    if root:
        posted = select(PostRow.investigation_id).where(*_posted_as(target, root))
        here = or_(Row.id.in_(posted), here)
    query = select(Row.id).where(here).order_by(Row.accepted_at.desc(), Row.id.desc()).limit(limit)
    with reading(engine) as session:
        return session.scalars(query).all()


def _posted_as(target: str, name: str) -> tuple[ColumnElement[bool], ...]:
    return (
        # With the blank, so that an id is not taken for the beginning of a longer one.
        PostRow.ref.startswith(f"{name} ", autoescape=True),
        PostRow.key.endswith(f":{target}", autoescape=True),
    )
