"""Logins, which any of several web processes can read and which can be ended from anywhere, and the
audit: who did what on the pages, when and from where. What a page held, and what was typed, is not
in it."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, CursorResult, Engine, Result, Select, delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from faultline.bot.store.connections import reading, storable
from faultline.bot.store.people_tables import SessionRow, VisitorRow, VisitRow

MAX_GROUPS = 500
MAX_NAME = 300
MAX_SESSIONS = 50
"""Logins of one visitor at once; the oldest ends when there is one more."""
TOUCH_INTERVAL = timedelta(minutes=1)
"""How exactly it is known when a login was last used: not each request writes."""


@dataclass(frozen=True)
class ProviderIdentity:
    """Somebody as a provider names them. `email` is empty unless the provider vouches for it."""

    issuer: str
    subject: str
    who: str
    name: str
    email: str = ""
    groups: tuple[str, ...] = ()
    provider_session: str | None = None


@dataclass(frozen=True)
class Login:
    """One login that holds. `key` is for ending it, and opens nothing."""

    key: str
    visitor_id: int
    person: ProviderIdentity
    proof: str
    address: str
    created_at: datetime
    used_at: datetime


class Logins:
    """All logins, on the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine, *, lasting: timedelta, idle: timedelta) -> None:
        self._engine = engine
        self._lasting = lasting
        self._idle = idle

    def begin(
        self,
        person: ProviderIdentity,
        secret: str,
        proof: str,
        address: str,
        now: datetime | None = None,
    ) -> None:
        """Keep a login that the browser shows with `secret`; what has ended is forgotten on the
        way."""
        try:
            self._begin(person, secret, proof, address, now or datetime.now(UTC))
        except IntegrityError:  # the visitor's first login in two tabs at once, on PostgreSQL
            self._begin(person, secret, proof, address, now or datetime.now(UTC))

    def _begin(
        self, person: ProviderIdentity, secret: str, proof: str, address: str, now: datetime
    ) -> None:
        with Session(self._engine) as session, session.begin():
            session.execute(delete(SessionRow).where(self._over(now)))
            same = (VisitorRow.issuer == person.issuer, VisitorRow.subject == person.subject)
            visitor = session.scalar(select(VisitorRow).where(*same).with_for_update())
            if visitor is None:
                visitor = VisitorRow(issuer=person.issuer, subject=person.subject, first_at=now)
                session.add(visitor)
            visitor.who, visitor.name = (
                storable(person.who, MAX_NAME),
                storable(person.name, MAX_NAME),
            )
            visitor.last_at = now
            # A new visitor has no id before this.
            session.flush()
            mine = select(SessionRow.id).where(SessionRow.visitor_id == visitor.id)
            # One place is for the login that begins.
            rows = session.scalars(
                mine.order_by(SessionRow.created_at.desc()).limit(MAX_SESSIONS - 1)
            ).all()
            conditions = (SessionRow.visitor_id == visitor.id, SessionRow.id.not_in(rows))
            session.execute(delete(SessionRow).where(*conditions))
            session.add(
                SessionRow(
                    id=_key(secret),
                    visitor_id=visitor.id,
                    proof=proof,
                    provider_session=storable(person.provider_session, MAX_NAME)
                    if person.provider_session
                    else None,
                    email=storable(person.email, MAX_NAME),
                    groups={"groups": [storable(g, MAX_NAME) for g in person.groups[:MAX_GROUPS]]},
                    address=address,
                    created_at=now,
                    seen_at=now,
                    expires_at=now + self._lasting,
                )
            )

    def find(self, secret: str, now: datetime | None = None) -> Login | None:
        """The login that the browser shows; None when there is none, or it has ended."""
        now = now or datetime.now(UTC)
        query = select(SessionRow, VisitorRow).join(
            VisitorRow, VisitorRow.id == SessionRow.visitor_id
        )
        query = query.where(SessionRow.id == _key(secret), ~self._over(now))
        with reading(self._engine) as session:
            row = session.execute(query).one_or_none()
            login = _login(*row) if row else None
        if login is not None and now - login.used_at >= TOUCH_INTERVAL:
            self._touch(login.key, now)
        return login

    def of_visitor(self, visitor_id: int, now: datetime | None = None) -> list[Login]:
        """Somebody's logins that hold, the one used last first."""
        now = now or datetime.now(UTC)
        query = select(SessionRow, VisitorRow).join(
            VisitorRow, VisitorRow.id == SessionRow.visitor_id
        )
        query = query.where(VisitorRow.id == visitor_id, ~self._over(now)).order_by(
            SessionRow.seen_at.desc()
        )
        with reading(self._engine) as session:
            return [_login(*row) for row in session.execute(query)]

    def end(self, secret: str) -> None:
        """End one login."""
        with Session(self._engine) as session, session.begin():
            session.execute(delete(SessionRow).where(SessionRow.id == _key(secret)))

    def end_all(self, visitor_id: int) -> int:
        """End all logins of a visitor; how many there were."""
        with Session(self._engine) as session, session.begin():
            return _rows(
                session.execute(delete(SessionRow).where(SessionRow.visitor_id == visitor_id))
            )

    def end_at_provider(
        self, issuer: str, subject: str | None, provider_session: str | None
    ) -> int:
        """End what the provider says has ended there: one of its sessions, or all of
        somebody."""
        theirs = select(VisitorRow.id).where(VisitorRow.issuer == issuer)
        if subject is not None:
            theirs = theirs.where(VisitorRow.subject == subject)
        gone = delete(SessionRow).where(SessionRow.visitor_id.in_(theirs))
        if provider_session is not None:
            gone = gone.where(SessionRow.provider_session == provider_session)
        elif subject is None:
            # Neither a session nor a person is named, and nobody else's login may end.
            return 0
        with Session(self._engine) as session, session.begin():
            return _rows(session.execute(gone))

    def _over(self, now: datetime) -> ColumnElement[bool]:
        return (SessionRow.expires_at <= now) | (SessionRow.seen_at <= now - self._idle)

    def _touch(self, key: str, now: datetime) -> None:
        with Session(self._engine) as session, session.begin():
            row = session.get(SessionRow, key)
            if row is not None:
                row.seen_at = now


def new_secret() -> str:
    """What a cookie holds: 256 random bits."""
    return secrets.token_urlsafe(32)


def _rows(result: Result[Any]) -> int:
    assert isinstance(result, CursorResult)
    return result.rowcount


def _key(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _login(row: SessionRow, visitor: VisitorRow) -> Login:
    groups = row.groups.get("groups")
    person = ProviderIdentity(
        issuer=visitor.issuer,
        subject=visitor.subject,
        who=visitor.who,
        name=visitor.name,
        email=row.email,
        groups=tuple(g for g in groups if isinstance(g, str)) if isinstance(groups, list) else (),
        provider_session=row.provider_session,
    )
    return Login(row.id, visitor.id, person, row.proof, row.address, row.created_at, row.seen_at)


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
