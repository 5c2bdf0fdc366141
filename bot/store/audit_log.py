"""The audit: who did what on the pages, when and from where. What a page held, and what was typed,
is not in it.

Synchronous, each operation one transaction; callers on an event loop use `in_store`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine, Select, delete, select
from sqlalchemy.orm import Session

from faultline.bot.store.memory import storable
from faultline.bot.store.sessions import reading
from faultline.bot.store.visitor_tables import SessionRow, VisitorRow, VisitRow

MAX_TEXT = 300
PAGE = 500
SWEEP_EVERY = timedelta(hours=1)


@dataclass(frozen=True)
class AuditEntry:
    """One line of the audit. `status` is that of the HTTP answer; `note` says why somebody was
    refused."""

    who: str
    name: str
    role: str
    action: str
    investigation_id: str | None
    address: str
    status: int
    note: str = ""
    at: datetime | None = None
    id: int = 0


@dataclass(frozen=True)
class AuditFilter:
    """Which lines are asked for; what is empty does not count."""

    who: str = ""
    action: str = ""
    investigation_id: str = ""
    since: datetime | None = None
    until: datetime | None = None


class AuditLog:
    """All lines, on the tables of `faultline.bot.store`. Those older than `retention` are deleted
    while new ones are written."""

    def __init__(self, engine: Engine, *, retention: timedelta) -> None:
        self._engine = engine
        self._retention = retention
        self._swept: datetime | None = None

    def write(self, entry: AuditEntry, now: datetime | None = None) -> None:
        """Keep one line."""
        now = now or datetime.now(UTC)
        with Session(self._engine) as session, session.begin():
            if self._swept is None or now - self._swept >= SWEEP_EVERY:
                self._swept = now
                session.execute(delete(VisitRow).where(VisitRow.at < now - self._retention))
                gone = (
                    VisitorRow.last_at < now - self._retention,
                    # A visitor with an open login is still needed.
                    VisitorRow.id.not_in(select(SessionRow.visitor_id)),
                )
                session.execute(delete(VisitorRow).where(*gone))
            session.add(
                VisitRow(
                    at=now,
                    who=storable(entry.who, MAX_TEXT),
                    name=storable(entry.name, MAX_TEXT),
                    role=entry.role,
                    action=entry.action,
                    investigation_id=storable(entry.investigation_id, MAX_TEXT)
                    if entry.investigation_id
                    else None,
                    address=storable(entry.address, MAX_TEXT),
                    status=entry.status,
                    note=storable(entry.note, MAX_TEXT),
                )
            )

    def read(
        self, audit_filter: AuditFilter, *, before: int | None = None, limit: int = PAGE
    ) -> list[AuditEntry]:
        """Lines, the newest first; `before` an id that was read already."""
        query = _query(audit_filter).order_by(VisitRow.id.desc()).limit(max(1, min(limit, PAGE)))
        if before is not None:
            query = query.where(VisitRow.id < before)
        with reading(self._engine) as session:
            return [_visit(row) for row in session.scalars(query)]

    def read_all(self, audit_filter: AuditFilter) -> Iterator[AuditEntry]:
        """Every line that is asked for, page by page: no long transaction, and no more than one
        page in memory."""
        before: int | None = None
        while page := self.read(audit_filter, before=before):
            yield from page
            before = page[-1].id

    def actions(self) -> list[str]:
        """What is done at all, by name."""
        with reading(self._engine) as session:
            return sorted(session.scalars(select(VisitRow.action).distinct()))


def _query(audit_filter: AuditFilter) -> Select[VisitRow]:
    query = select(VisitRow)
    if audit_filter.who:
        # PostgreSQL refuses a NUL in a parameter too.
        query = query.where(VisitRow.who == storable(audit_filter.who, MAX_TEXT))
    if audit_filter.action:
        query = query.where(VisitRow.action == storable(audit_filter.action, MAX_TEXT))
    if audit_filter.investigation_id:
        query = query.where(
            VisitRow.investigation_id == storable(audit_filter.investigation_id, MAX_TEXT)
        )
    if audit_filter.since is not None:
        query = query.where(VisitRow.at >= audit_filter.since)
    if audit_filter.until is not None:
        query = query.where(VisitRow.at < audit_filter.until)
    return query


def _visit(row: VisitRow) -> AuditEntry:
    return AuditEntry(
        who=row.who,
        name=row.name,
        role=row.role,
        action=row.action,
        investigation_id=row.investigation_id,
        address=row.address,
        status=row.status,
        note=row.note,
        at=row.at,
        id=row.id,
    )
