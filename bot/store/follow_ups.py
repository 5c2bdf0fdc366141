"""What people asked for after an answer: follow-up investigations, each started exactly once, with
another window or more services; tickets; and captures of running jobs.

The wish for a ticket is a reply address of the investigation, and a worker that finds it makes the
ticket. A capture has an audit row, and a claim that keeps two of one job apart.
"""

from __future__ import annotations

import hashlib
import secrets
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from sqlalchemy import ColumnElement, Engine, func, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import Scope, Window
from faultline.bot.store.connections import reading, storable
from faultline.bot.store.messages import address_columns, answered_at
from faultline.bot.store.people_tables import CaptureRow, FollowUpRow
from faultline.bot.store.store import ReplyTo, StoredInvestigation, new_investigation_id
from faultline.bot.store.tables import InvestigationRow

MAX_SERVICES = 20
GENERATIONS = 50
"""A chain of follow-ups is followed this far back."""
MAX_QUESTION = 2_000


@dataclass(frozen=True)
class FollowUpScope:
    """What a follow-up investigates instead of its alert's scope; empty repeats that scope."""

    window: Window | None = None
    services: tuple[str, ...] = ()


class FollowUps:
    """All follow-ups, on the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def start(
        self,
        parent: StoredInvestigation,
        scope: FollowUpScope,
        *,
        key: str,
        question: str,
        who: str,
        reply_to: ReplyTo,
        now: datetime | None = None,
    ) -> tuple[str, bool]:
        """Start one from `parent`; (its id, whether it is new). The same `key` again starts
        nothing.

        It joins no open alert and no later alert joins it: its fingerprint is its own.
        """
        now = now or datetime.now(UTC)
        # Of two workers that start it at once, one fails, and finds the other's row in a retry.
        for attempt in (1, 2):
            try:
                with Session(self._engine, expire_on_commit=False) as session, session.begin():
                    row = session.scalar(select(FollowUpRow).where(FollowUpRow.key == key))
                    if row is not None:
                        return row.investigation_id, False
                    fresh = _investigation(parent, key, question, reply_to, now)
                    session.add(fresh)
                    # The follow-up's row refers to this one.
                    session.flush()
                    session.add(_follow_up(fresh.id, parent.id, scope, key, who))
                return fresh.id, True
            except IntegrityError:  # another worker started it at the same moment
                if attempt == 2:
                    raise
        raise AssertionError("unreachable")

    def has_key(self, key: str) -> bool:
        """Whether one was started under this key."""
        with reading(self._engine) as session:
            return session.scalar(select(FollowUpRow.key).where(FollowUpRow.key == key)) is not None

    def scope(self, investigation_id: str) -> FollowUpScope | None:
        """What it looks at; None for an investigation that was not started from another one."""
        with reading(self._engine) as session:
            row = session.get(FollowUpRow, investigation_id)
            if row is None:
                return None
            window = (
                Window(start=row.window_start, end=row.window_end)
                if row.window_start and row.window_end
                else None
            )
            return FollowUpScope(window, tuple(row.services))

    def parent(self, investigation_id: str) -> str | None:
        """The investigation that it was started from."""
        with reading(self._engine) as session:
            return session.scalar(
                select(FollowUpRow.parent_id).where(
                    FollowUpRow.investigation_id == investigation_id
                )
            )

    def first(self, investigation_id: str) -> str:
        """The first investigation of its chain of follow-ups; itself, when it is in none."""
        for _ in range(GENERATIONS):
            parent = self.parent(investigation_id)
            if parent is None:
                break
            investigation_id = parent
        return investigation_id

    def started_from(self, parent_id: str) -> Sequence[str]:
        """The investigations that were started from this one, the oldest first."""
        query = select(FollowUpRow.investigation_id).where(FollowUpRow.parent_id == parent_id)
        with reading(self._engine) as session:
            return session.scalars(query.order_by(FollowUpRow.investigation_id)).all()

    def count_since(self, channel: str, thread: str, since: datetime) -> int:
        """How many this thread of Slack has asked for since then."""
        row = InvestigationRow
        return self._count(since, row.slack_channel == channel, row.slack_thread == thread)

    def count_at(self, target: str, address: str, since: datetime) -> int:
        """How many are answered at this address of another reply target since then."""
        return self._count(since, answered_at(target, address))

    def _count(self, since: datetime, *where: ColumnElement[bool]) -> int:
        query = (
            select(func.count())
            .select_from(FollowUpRow)
            .join(InvestigationRow, InvestigationRow.id == FollowUpRow.investigation_id)
            .where(InvestigationRow.accepted_at >= since, *where)
        )
        with reading(self._engine) as session:
            return session.scalar(query) or 0


def follow_up_scope(scope: Scope, follow_up: FollowUpScope | None) -> Scope:
    """The scope of a follow-up: its window, against one of the same length before it, and its
    services added."""
    if follow_up is None:
        return scope
    changed: dict[str, object] = {}
    if follow_up.services:
        changed["services"] = tuple(dict.fromkeys((*scope.services, *follow_up.services)))
    if follow_up.window is not None:
        window = follow_up.window
        first = scope.baseline[0] if scope.baseline else None
        # A short window still gets a baseline as long as the alert's own.
        length = max(window.end - window.start, first.end - first.start if first else timedelta(0))
        baseline = Window(start=window.start - length, end=window.start)
        changed |= {
            "incident": window,
            "baseline": (baseline,),
            "baseline_logs": None,
            "baseline_spans": None,
        }
    return scope.model_copy(update=changed)


def _investigation(
    parent: StoredInvestigation, key: str, question: str, reply_to: ReplyTo, now: datetime
) -> InvestigationRow:
    hexdigest = hashlib.sha256(f"further\x00{key}".encode("utf-8", "replace")).hexdigest()[:16]
    return InvestigationRow(
        id=new_investigation_id(now),
        fingerprint=hexdigest,
        open_fingerprint=None,
        alert=parent.alert.model_dump(mode="json"),
        question=storable(masked(question), MAX_QUESTION) or None,
        # A follow-up amends the incident's note when somebody asks for that, not by itself.
        **address_columns(replace(reply_to, pagerduty_incident=None)),
        accepted_at=now,
        automatic=False,
        team=parent.team,
    )


def _follow_up(
    investigation_id: str, parent_id: str, scope: FollowUpScope, key: str, who: str
) -> FollowUpRow:
    window = scope.window
    return FollowUpRow(
        investigation_id=investigation_id,
        key=key,
        parent_id=parent_id,
        window_start=window.start if window else None,
        window_end=window.end if window else None,
        services=[storable(s, 200) for s in scope.services[:MAX_SERVICES]],
        who=storable(who, 200),
    )


@dataclass(frozen=True)
class Wish:
    """What somebody asked for. `first` is the investigation under which the ticket is known,
    `about` what else it is made from, such as the change to revert."""

    first: str
    about: str = ""


class TicketRequests:
    """On the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._follow_ups = FollowUps(engine)

    def ask(self, investigation_id: str, target: str, about: str = "") -> bool:
        """A ticket at this target is to hold the investigation's answer. Asked again, it is brought
        up to date. What was started from another investigation shares its ticket. `about` holds
        no blank.

        False while there is no answer: a run that is under way has chosen its reply targets.
        """
        address = wish(investigation_id, self._follow_ups.first(investigation_id), about)
        with Session(self._engine) as session, session.begin():
            row = session.get_one(InvestigationRow, investigation_id, with_for_update=True)
            if row.status != "done":
                return False
            row.reply_addresses = {**(row.reply_addresses or {}), target: address}
            # A worker posts what its messages do not show yet.
            row.revision += 1
        return True

    def made(self, investigation_id: str) -> None:
        """There is a ticket now: other messages show where."""
        with Session(self._engine) as session, session.begin():
            row = session.get_one(InvestigationRow, investigation_id, with_for_update=True)
            row.revision += 1


def wish(investigation_id: str, first: str, about: str = "") -> str:
    """The address: whose answer, under which investigation its ticket is known, and what about.

    A further investigation takes over the addresses of the one it was started from. This one it
    does not: nobody asked for its answer.
    """
    return f"{investigation_id} {first} {about}".rstrip()


def wished(address: str | None, investigation_id: str) -> Wish | None:
    """What the address asks for; None where nobody asked for a ticket with this answer."""
    whose, *fields = (address or "").split(" ")
    return Wish(*fields[:2]) if whose == investigation_id and fields else None


CaptureStatus = Literal["asked", "recorded", "partial", "failed", "refused"]
CLAIM_LOCK = 0x63617074
"""First half of the PostgreSQL advisory lock under which a job is claimed; the second is the job's
name."""
LONGEST_CAPTURE = timedelta(hours=2)
"""A capture without an end counts as running for this long: its process may have been killed."""


@dataclass(frozen=True)
class CaptureBudget:
    """How often a job may be asked."""

    cooldown: timedelta
    per_day: int


@dataclass(frozen=True)
class CaptureRecord:
    """One row of the record."""

    id: str
    job: str
    requested_by: str
    requested_at: datetime
    requested: str
    hosts: str
    counts: bool
    status: CaptureStatus
    finished_at: datetime | None
    result: str | None


@dataclass(frozen=True)
class CaptureClaim:
    """The right to ask a job for a capture, or why there is none. Either way `id` is the row that
    says so."""

    id: str
    refusal: str | None = None


class CaptureLog:
    """All captures, on the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def claim(
        self,
        job: str,
        *,
        requested_by: str,
        requested: str,
        hosts: str,
        budget: CaptureBudget,
        now: datetime | None = None,
    ) -> CaptureClaim:
        """Take the job's next capture, if none runs and the budget allows it. Of two at once one
        gets it."""
        now = now or datetime.now(UTC)
        capture_id = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        with self._write(job) as session:
            refusal = _refusal(_counting(session, job), budget, now)
            session.add(
                CaptureRow(
                    id=capture_id,
                    job=job,
                    asked_by=requested_by,
                    asked_at=now,
                    requested=masked(requested),
                    hosts=hosts,
                    counts=refusal is None,
                    status="asked" if refusal is None else "refused",
                    finished_at=None if refusal is None else now,
                    result=refusal,
                )
            )
        return CaptureClaim(capture_id, refusal)

    def finish(self, capture_id: str, status: CaptureStatus, *, result: str, counts: bool) -> None:
        """Keep its result. `counts`: whether any machine was asked to record."""
        with Session(self._engine) as session, session.begin():
            row = session.get_one(CaptureRow, capture_id)
            row.status = status
            row.result = masked(result)
            row.counts = counts
            row.finished_at = datetime.now(UTC)

    def history(self, job: str | None = None, limit: int = 50) -> list[CaptureRecord]:
        """The newest first."""
        query = (
            select(CaptureRow)
            .order_by(CaptureRow.asked_at.desc(), CaptureRow.id.desc())
            .limit(limit)
        )
        if job is not None:
            query = query.where(CaptureRow.job == job)
        with reading(self._engine) as session:
            return [_record(row) for row in session.scalars(query)]

    @contextmanager
    def _write(self, job: str) -> Iterator[Session]:
        with Session(self._engine) as session, session.begin():
            # SQLite's transaction holds its one lock already.
            if session.get_bind().dialect.name == "postgresql":
                # An advisory lock of two keys takes signed 32-bit integers.
                keys = {"room": CLAIM_LOCK, "job": zlib.crc32(job.encode()) - 2**31}
                session.execute(text("SELECT pg_advisory_xact_lock(:room, :job)"), keys)
            yield session


def _counting(session: Session, job: str) -> list[CaptureRow]:
    query = select(CaptureRow).where(CaptureRow.job == job, CaptureRow.counts)
    return list(session.scalars(query.order_by(CaptureRow.asked_at.desc()).limit(1000)))


def _refusal(rows: list[CaptureRow], budget: CaptureBudget, now: datetime) -> str | None:
    """Ages are absolute: a clock that was set back must neither open the gate nor keep it shut for
    long."""
    ages = [(abs(now - row.asked_at), row) for row in rows]
    running = [row for age, row in ages if row.finished_at is None and age < LONGEST_CAPTURE]
    if running:
        return f"capture {running[0].id} of this job has not ended yet"
    recent = [age for age, _ in ages if age < budget.cooldown]
    if recent:
        left = (budget.cooldown - min(recent)).total_seconds() / 60
        return (
            f"its last capture began {min(recent).total_seconds() / 60:.0f} min ago; "
            f"{left:.0f} min of cool-down left"
        )
    today = sum(age < timedelta(days=1) for age, _ in ages)
    if today >= budget.per_day:
        return (
            f"{today} captures in the last 24 hours, and no more than {budget.per_day} are allowed"
        )
    return None


def _record(row: CaptureRow) -> CaptureRecord:
    return CaptureRecord(
        id=row.id,
        job=row.job,
        requested_by=row.asked_by,
        requested_at=row.asked_at,
        requested=row.requested,
        hosts=row.hosts,
        counts=row.counts,
        status=row.status,  # type: ignore[arg-type]
        finished_at=row.finished_at,
        result=row.result,
    )
