"""The record of captures: an audit row for each, and the claim that keeps two of one job apart.

Synchronous, each operation one transaction; callers on an event loop use `in_store`.
"""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session

from faultline.analysis.secrets.redaction import masked
from faultline.bot.store.models import CaptureRow
from faultline.bot.store.sessions import reading

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
