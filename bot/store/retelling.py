"""What must be told or looked at again: messages to edit, investigations to run once more, digests to post.

Synchronous, each operation one transaction; callers on an event loop use `asyncio.to_thread`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Engine, or_, select, update
from sqlalchemy.orm import Session

from bot.store.models import InvestigationRow

ENDED = ("done", "failed")
EDIT_EVERY = timedelta(seconds=10)
"""A message is edited at most so often for alerts that join: Slack takes about 50 edits a minute of a whole workspace
(https://docs.slack.dev/apis/web-api/rate-limits, tier 3)."""
DIGEST_WAITS = timedelta(minutes=15)
"""A digest waits so long for investigations of its last minutes."""
MOST = 100


@dataclass(frozen=True)
class Retold:
    """An investigation whose messages are to be edited, and the state of it that they will tell."""

    investigation_id: str
    changes: int


@dataclass(frozen=True)
class Rerun:
    """An investigation that is to be run again, for the how-manieth time."""

    investigation_id: str
    number: int


@dataclass(frozen=True)
class DueDigest:
    """A channel whose quiet hours are over, and what was investigated in them, the oldest first."""

    channel: str
    investigation_ids: tuple[str, ...]


class Retelling:
    """On the tables of `bot.store`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def to_retell(self, now: datetime) -> list[Retold]:
        """Investigations that ended and changed since they were told. A run that ends tells by itself."""
        rested = or_(
            InvestigationRow.told_at.is_(None),
            InvestigationRow.told_at <= now - EDIT_EVERY,
            InvestigationRow.told_at > now + EDIT_EVERY,
        )
        query = (
            select(InvestigationRow.id, InvestigationRow.changes)
            .where(InvestigationRow.changes > InvestigationRow.told, rested)
            .where(InvestigationRow.status.in_(ENDED), InvestigationRow.wants_run.is_(False))
            .order_by(InvestigationRow.id)
            .limit(MOST)
        )
        with self._reading() as session:
            return [Retold(investigation_id, changes) for investigation_id, changes in session.execute(query)]

    def retold(self, given: Retold, now: datetime) -> None:
        """Its edits are queued; what joined since then is due again."""
        known = (InvestigationRow.id == given.investigation_id, InvestigationRow.told < given.changes)
        with Session(self._engine) as session, session.begin():
            session.execute(update(InvestigationRow).where(*known).values(told=given.changes, told_at=now))

    def to_rerun(self) -> list[Rerun]:
        """Investigations that ended and are to be run again. One is named until its run has begun."""
        query = (
            select(InvestigationRow.id, InvestigationRow.runs)
            .where(InvestigationRow.wants_run, InvestigationRow.status.in_(ENDED))
            .order_by(InvestigationRow.id)
            .limit(MOST)
        )
        with self._reading() as session:
            return [Rerun(investigation_id, runs + 1) for investigation_id, runs in session.execute(query)]

    def due_digests(self, now: datetime) -> list[DueDigest]:
        """Digests of channels whose quiet hours ended, once all in them is answered or has been waited for."""
        due = (InvestigationRow.quiet_until <= now, InvestigationRow.digested_at.is_(None))
        columns = (InvestigationRow.channel, InvestigationRow.id, InvestigationRow.status, InvestigationRow.quiet_until)
        query = select(*columns).where(*due).order_by(InvestigationRow.accepted_at, InvestigationRow.id).limit(MOST)
        found: defaultdict[str, list[str]] = defaultdict(list)
        waiting: set[str] = set()
        with self._reading() as session:
            for channel, investigation_id, status, until in session.execute(query):
                found[channel].append(investigation_id)
                if status not in ENDED and until is not None and now - until < DIGEST_WAITS:
                    waiting.add(channel)
        return [DueDigest(channel, tuple(ids)) for channel, ids in found.items() if channel not in waiting]

    def digested(self, digest: DueDigest, now: datetime) -> None:
        """The digest is posted."""
        ids = InvestigationRow.id.in_(digest.investigation_ids)
        with Session(self._engine) as session, session.begin():
            session.execute(update(InvestigationRow).where(ids).values(digested_at=now))

    def _reading(self) -> Session:
        return Session(self._engine.execution_options(reads_only=True))
