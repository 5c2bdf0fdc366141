"""The store's operations, each one transaction.

Synchronous: callers on an event loop use `in_store`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat

from sqlalchemy import Engine, delete, func, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.admission import Policy
from faultline.bot.policy.values import (
    Accepted,
    Arrival,
    Delivery,
    GroupedAlert,
    Outcome,
    PostClaim,
    Progress,
    ReplyTo,
    Status,
    StoredInvestigation,
)
from faultline.bot.store.admission_state import PAUSES_S, IncidentBusy, Patience, locks_of
from faultline.bot.store.admitting import Admission, new_investigation_id
from faultline.bot.store.connections import reading
from faultline.bot.store.late_joins import LateJoins
from faultline.bot.store.learned_policy import PolicyWithCalls
from faultline.bot.store.messages import reply_to_of
from faultline.bot.store.tables import GroupedAlertRow, InvestigationRow, PostRow, ProgressRow
from faultline.bot.store.visibility import ALL, Visibility

__all__ = [
    "NO_POST",
    "Accepted",
    "Arrival",
    "Delivery",
    "GroupedAlert",
    "IncidentBusy",
    "Outcome",
    "PostClaim",
    "Progress",
    "ReplyTo",
    "Status",
    "Store",
    "StoredInvestigation",
    "new_investigation_id",
]


LOCK_NOT_AVAILABLE, DEADLOCK = "55P03", "40P01"
"""https://www.postgresql.org/docs/current/errcodes-appendix.html"""
ATTEMPTS = 3
"""Of a transaction that meets another's row or fingerprint at the same moment."""


class Store:
    """All durable state of the bot except case folders and the engine's own."""

    def __init__(self, engine: Engine, *, policy: Policy | None = None) -> None:
        self.engine = engine
        self._policy = PolicyWithCalls(engine, policy or Policy())
        self._patience = Patience()
        self.late_joins = LateJoins(engine, self._policy)

    def over(self, engine: Engine) -> Store:
        """The same rules over another engine."""
        return Store(engine, policy=self._policy.configured)

    @contextmanager
    def _write(self) -> Iterator[Session]:
        with Session(self.engine, expire_on_commit=False) as session, session.begin():
            yield session

    def _read(self) -> Session:
        return reading(self.engine)

    def accept(
        self,
        alert: Alert,
        *,
        delivery: Delivery | None = None,
        reply_to: ReplyTo | None = None,
        question: str | None = None,
        by_person: bool = False,
        now: datetime | None = None,
    ) -> Accepted:
        """Take one alert: start an investigation, join one, hold it back, or recognise a duplicate
        or a resolution."""
        return self.accept_all(
            [Arrival(alert, delivery, reply_to or ReplyTo(), question, by_person)], now=now
        )[0]

    def accept_all(
        self, arrivals: Sequence[Arrival], *, now: datetime | None = None
    ) -> list[Accepted]:
        """Take alerts in their order, in one transaction: all of them, or, when it fails, none.

        Raises IncidentBusy while another host has some of them in hand.
        """
        now = now or datetime.now(UTC)
        for attempt in range(ATTEMPTS):
            try:
                return self._accept_locked(arrivals, now)
            except DBAPIError as error:
                if _state(error) == LOCK_NOT_AVAILABLE:
                    # The error does not name the alert, so all of them count as busy.
                    raise IncidentBusy(range(len(arrivals))) from error
                # Another process took the same delivery or alert at the same moment.
                again = isinstance(error, IntegrityError) or _state(error) == DEADLOCK
                if not again or attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _accept_locked(self, arrivals: Sequence[Arrival], now: datetime) -> list[Accepted]:
        policy = self._policy.at(arrivals, now)
        admission = Admission(policy)
        # SQLite's transaction holds its one lock, so no other is needed.
        if self.engine.dialect.name == "sqlite":
            with self._write() as session:
                return admission.admit_all(session, arrivals, now)
        locks = locks_of(arrivals, policy)
        until = self._patience.until(locks)
        for pause_s in chain(PAUSES_S, repeat(PAUSES_S[-1])):
            with self._write() as session:
                busy = locks.try_all(session)
                late = time.monotonic() >= until
                # When the time is up, alerts with their own locks do not wait for related ones.
                if not busy or (late and not locks.refused(busy)):
                    if busy:
                        self._patience.ended(busy)
                    return admission.admit_all(session, arrivals, now)
            if late:
                self._patience.ended(busy)
                raise IncidentBusy(locks.refused(busy))
            # Outside the transaction, whose end has released the locks.
            time.sleep(pause_s)
        raise AssertionError("unreachable")

    def undispatched(self, limit: int = 500) -> Sequence[str]:
        """Ids of accepted investigations that the engine has not been given yet, oldest first."""
        query = (
            select(InvestigationRow.id)
            .where(InvestigationRow.dispatched_at.is_(None))
            .order_by(InvestigationRow.accepted_at)
            .limit(limit)
        )
        with self._read() as session:
            return session.scalars(query).all()

    def mark_dispatched(self, ids: Sequence[str]) -> None:
        """Remember that the engine has them."""
        with self._write() as session:
            session.execute(
                update(InvestigationRow)
                .where(InvestigationRow.id.in_(ids))
                .values(dispatched_at=datetime.now(UTC))
            )

    def get(
        self, investigation_id: str, visibility: Visibility = ALL
    ) -> StoredInvestigation | None:
        """One investigation, or None; also where it cannot be seen, by the same query."""
        with self._read() as session:
            row = session.scalar(
                select(InvestigationRow).where(
                    InvestigationRow.id == investigation_id, *visibility.where()
                )
            )
            return _investigations(session, [row])[0] if row else None

    def latest(self, limit: int = 50, visibility: Visibility = ALL) -> list[StoredInvestigation]:
        """The newest investigations first."""
        query = select(InvestigationRow).where(*visibility.where())
        query = query.order_by(InvestigationRow.accepted_at.desc()).limit(limit)
        with self._read() as session:
            return _investigations(session, session.scalars(query).all())

    def some(self, ids: Sequence[str], visibility: Visibility = ALL) -> list[StoredInvestigation]:
        """The investigations with these ids, in that order; unknown ids, and what cannot be seen,
        are left out."""
        query = select(InvestigationRow).where(InvestigationRow.id.in_(ids), *visibility.where())
        with self._read() as session:
            rows = {r.id: r for r in session.scalars(query)}
            return _investigations(session, [rows[i] for i in ids if i in rows])

    def count(self, status: Status | None = None, visibility: Visibility = ALL) -> int:
        """How many investigations there are (in that status)."""
        query = select(func.count()).select_from(InvestigationRow).where(*visibility.where())
        if status:
            query = query.where(InvestigationRow.status == status)
        with self._read() as session:
            return session.scalar(query) or 0

    def start(self, investigation_id: str) -> None:
        """The workflow runs: the scope is fixed from what is known now, so a run that was asked for
        is this one."""
        with self._write() as session:
            row = session.get_one(InvestigationRow, investigation_id, with_for_update=True)
            if row.wants_run:
                row.wants_run = False
                row.runs += 1
            row.status = "running"
            row.started_at = row.started_at or datetime.now(UTC)
            row.announced_at = (
                row.announced_at or row.started_at
            )  # from here on its workflow announces

    def finish(
        self,
        investigation_id: str,
        status: Status,
        *,
        verdict: str | None,
        confidence: float | None,
        headline: str,
        culprit: str | None = None,
        explained: bool | None = None,
    ) -> None:
        """The workflow has ended with an answer, or with the reason why there is none."""
        with self._write() as session:
            row = session.get_one(InvestigationRow, investigation_id, with_for_update=True)
            row.status = status
            row.verdict = verdict
            row.confidence = confidence
            row.headline = masked(headline)
            row.culprit = culprit
            row.explained = explained
            self.late_joins.note_blame(session, row)
            # The answer says what joined so far.
            row.notified_revision = row.revision
            row.finished_at = row.finished_at or datetime.now(UTC)

    def add_progress(self, investigation_id: str, stage: str, text: str, *, key: str) -> None:
        # Another run has its own lines, although its steps have the same keys.
        """Add one line of progress; the same key again (a step run twice) adds nothing."""
        with self._write() as session:
            runs = (
                session.scalar(
                    select(InvestigationRow.runs).where(InvestigationRow.id == investigation_id)
                )
                or 0
            )
            full_key = f"{investigation_id}:{key}" + (f":run{runs}" if runs else "")
            if session.scalar(select(ProgressRow.id).where(ProgressRow.key == full_key)) is None:
                session.add(
                    ProgressRow(
                        investigation_id=investigation_id,
                        key=full_key,
                        at=datetime.now(UTC),
                        stage=stage,
                        text=masked(text),
                    )
                )

    def progress(self, investigation_id: str, after: int = 0) -> list[Progress]:
        """Lines of progress with a `seq` above `after`."""
        query = (
            select(ProgressRow)
            .where(ProgressRow.investigation_id == investigation_id, ProgressRow.id > after)
            .order_by(ProgressRow.id)
        )
        with self._read() as session:
            return [Progress(r.id, r.at, r.stage, r.text) for r in session.scalars(query)]

    def claim_post(
        self, key: str, investigation_id: str, *, owner: str, lease: timedelta
    ) -> PostClaim:
        """Claim the right to post under `key`. Not granted while another's attempt is younger than
        `lease`."""
        now = datetime.now(UTC)
        with self._write() as session:
            # Locked: of two workers that claim at once, the second sees the first one's claim.
            row = session.get(PostRow, key, with_for_update=True)
            if row is None:
                session.add(
                    PostRow(
                        key=key, investigation_id=investigation_id, owner=owner, attempted_at=now
                    )
                )
                # After a restore, a post may exist that the store does not remember.
                marker = session.get(PostRow, forgotten_key(investigation_id))
                return PostClaim(
                    mine=True, attempted_before=marker.attempted_at if marker else None
                )
            if row.ref is not None:
                return PostClaim(mine=False, ref=row.ref, attempted_before=row.attempted_at)
            before = row.attempted_at
            if (
                row.owner != owner and abs(now - before) < lease
            ):  # a clock set back must not hold it for longer
                return PostClaim(mine=False, attempted_before=before)
            row.owner = owner
            row.attempted_at = now
            return PostClaim(mine=True, attempted_before=before)

    def record_post(self, key: str, ref: str) -> None:
        """The vendor has it, under `ref` (a Slack timestamp, a note id)."""
        with self._write() as session:
            row = session.get_one(PostRow, key)
            row.ref = ref
            row.posted_at = row.posted_at or datetime.now(UTC)

    def release_post(self, key: str, *, owner: str) -> None:
        """Forget the owner's attempt, which certainly posted nothing."""
        conditions = (PostRow.key == key, PostRow.owner == owner, PostRow.ref.is_(None))
        with self._write() as session:
            session.execute(delete(PostRow).where(*conditions))

    def posts(self, investigation_id: str) -> dict[str, str]:
        """Key to ref of what was posted for one investigation."""
        with self._read() as session:
            rows = session.scalars(
                select(PostRow).where(PostRow.investigation_id == investigation_id)
            )
            return {row.key: row.ref for row in rows if row.ref is not None}


NO_POST = ""
"""The reference of a claim under which nothing stands at a vendor: it only says that something is
done."""


def forgotten_key(investigation_id: str) -> str:
    """Under which it is kept that posts of an investigation may have been made that the store does
    not remember: it was restored from a backup. Whoever posts then looks for its post at the vendor
    first."""
    return f"{investigation_id}:forgotten"


def _state(error: DBAPIError) -> str | None:
    state: str | None = getattr(error.orig, "sqlstate", None)
    return state


def _investigations(
    session: Session, rows: Sequence[InvestigationRow]
) -> list[StoredInvestigation]:
    query = select(GroupedAlertRow).where(
        GroupedAlertRow.investigation_id.in_([row.id for row in rows])
    )
    related: defaultdict[str, list[GroupedAlert]] = defaultdict(list)
    for alert_row in session.scalars(query.order_by(GroupedAlertRow.id)):
        alert = Alert.model_validate(alert_row.alert)
        joined = GroupedAlert(
            alert,
            alert_row.fingerprint,
            alert_row.at,
            alert_row.why,
            alert_row.repeats,
            alert_row.resolved_at,
        )
        related[alert_row.investigation_id].append(joined)
    return [_investigation(row, tuple(related[row.id])) for row in rows]


def _investigation(row: InvestigationRow, related: tuple[GroupedAlert, ...]) -> StoredInvestigation:
    return StoredInvestigation(
        id=row.id,
        alert=Alert.model_validate(row.alert),
        question=row.question,
        status=row.status,  # type: ignore[arg-type]
        repeats=row.repeats,
        reply_to=reply_to_of(row),
        accepted_at=row.accepted_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        resolved_at=row.resolved_at,
        verdict=row.verdict,
        confidence=row.confidence,
        headline=row.headline,
        culprit=row.culprit,
        explained=row.explained,
        related=related,
        quiet_until=row.quiet_until,
        rate_limited=row.surplus,
        runs=row.runs,
        team=row.team,
        priority=row.priority,
        joined_id=row.joined_id,
    )
