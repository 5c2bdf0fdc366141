"""What is due after an answer: messages to edit, investigations to run once more, digests to post.

Synchronous, each operation one transaction; callers on an event loop use `in_store`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache

from sqlalchemy import Engine, Select, bindparam, or_, select, update
from sqlalchemy.orm import Session

from faultline.bot.store.models import InvestigationRow as Row
from faultline.bot.store.sessions import reading

ENDED = ("done", "failed")
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
    query = select(Row.channel, Row.id, Row.status, Row.quiet_until)
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
        notified = {Row.notified_revision: revision.revision, Row.notified_at: now}
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
