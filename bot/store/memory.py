"""Memory: investigations that ended with an answer, found again by their alert, their services or
their words.

Synchronous, each operation one transaction; callers on an event loop use `in_store`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Engine, Select, delete, false, func, or_, select, text
from sqlalchemy.orm import Session

from faultline.analysis.case.earlier import EarlierInvestigation
from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.words import search_words, words_of
from faultline.bot.store.models import RememberedRow, RememberedServiceRow
from faultline.bot.store.sessions import reading
from faultline.bot.store.visibility import ALL, Visibility

MAX_SERVICES = 50
MAX_ROWS = 500
READ_FOR_LIKENESS = 300
"""How many of the newest investigations that share any word with an alert are compared by counting
words."""
ALIKE = 0.5
"""Share of an alert's words that one of like words has."""


class Memory:
    """All remembered investigations that can be seen, on the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine, visibility: Visibility = ALL) -> None:
        self._engine = engine
        self._visibility = visibility

    def remember(self, investigation: EarlierInvestigation, alert: Alert) -> None:
        """Keep it; once more replaces what was kept. The investigation itself must be in the
        store."""
        # A judgement may change later, and is kept apart (`Labels`).
        document = investigation.model_copy(update={"judged": None})
        services = list(
            dict.fromkeys(storable(s, 200) for s in investigation.services if s.strip())
        )[:MAX_SERVICES]
        with Session(self._engine) as session, session.begin():
            row = session.scalar(_by_id(investigation.id).with_for_update())
            if row is None:
                row = RememberedRow(investigation_id=investigation.id)
                session.add(row)
            row.at = investigation.at
            row.fingerprint = investigation.fingerprint
            row.alike = alike(alert)
            row.content = document.model_dump(mode="json", exclude_none=True)
            row.words = " ".join(_words(investigation))
            # The services' rows refer to this one.
            session.flush()
            mine = RememberedServiceRow.investigation_id == investigation.id
            session.execute(delete(RememberedServiceRow).where(mine))
            session.add_all(
                RememberedServiceRow(investigation_id=investigation.id, service=s) for s in services
            )

    def get(self, investigation_id: str) -> EarlierInvestigation | None:
        """One, or None."""
        with self._read() as session:
            row = session.scalar(_by_id(investigation_id).where(*self._visible()))
            return _remembered(row) if row else None

    def search_investigations(
        self,
        text: str,
        services: Collection[str] = (),
        since: datetime | None = None,
        limit: int = 50,
    ) -> list[EarlierInvestigation]:
        """Those that hold every word of the text, or words that begin so; of these services, if any
        are given.

        The newest first. A text without any word finds nothing by words: then the services and the
        time alone decide.
        """
        words = search_words(text)
        if text.strip() and not words:
            return []
        query = self._newest(since=since, limit=limit)
        if words:
            query = query.where(self._matches(words, every=True))
        if services:
            query = query.where(_of_services(services))
        with self._read() as session:
            return [_remembered(row) for row in session.scalars(query)]

    def same_alert(
        self, alert: Alert, *, since: datetime, before: datetime, limit: int
    ) -> list[EarlierInvestigation]:
        """Of the same alert: its fingerprint, or its words on its service. The newest first."""
        query = self._newest(since=since, before=before, limit=limit).where(_same(alert))
        with self._read() as session:
            return [_remembered(row) for row in session.scalars(query)]

    def count_answers(self, alert: Alert, *, since: datetime, before: datetime) -> int:
        """How often the same alert was answered."""
        between = (RememberedRow.at >= since, RememberedRow.at < before)
        query = (
            select(func.count())
            .select_from(RememberedRow)
            .where(_same(alert), *between, *self._visible())
        )
        with self._read() as session:
            return session.scalar(query) or 0

    def of_services(
        self, services: Collection[str], *, since: datetime, before: datetime, limit: int
    ) -> list[EarlierInvestigation]:
        """Of any of these services. The newest first."""
        query = self._newest(since=since, before=before, limit=limit).where(_of_services(services))
        with self._read() as session:
            return [_remembered(row) for row in session.scalars(query)]

    def of_like_words(
        self, text: str, *, since: datetime, before: datetime, limit: int
    ) -> list[EarlierInvestigation]:
        """Those that hold at least half of the words of the text. The newest first."""
        words = search_words(text)
        if not words:
            return []
        # The share of words is counted here and not by the database, so bound what is read.
        query = self._newest(since=since, before=before, limit=READ_FOR_LIKENESS)
        with self._read() as session:
            rows = session.scalars(query.where(self._matches(words, every=False)))
            matching_rows = (
                row
                for row in rows
                if len(set(words) & set(row.words.split(" "))) >= ALIKE * len(words)
            )
            return [_remembered(row) for _, row in zip(range(limit), matching_rows, strict=False)]

    def _matches(self, words: Sequence[str], *, every: bool) -> ColumnElement[bool]:
        """Rows with the words, by the database's own full-text index. Words hold letters and digits
        alone."""
        if self._engine.dialect.name == "sqlite":
            # `*` here, and `:*` below, match words that begin so.
            expression = (" AND " if every else " OR ").join(
                f'"{w}"*' if every else f'"{w}"' for w in words
            )
            match = text("SELECT rowid FROM remembered_search WHERE remembered_search MATCH :words")
            return RememberedRow.id.in_(
                match.bindparams(words=expression).columns(RememberedRow.id)
            )
        expression = (" & " if every else " | ").join(
            f"'{w}':*" if every else f"'{w}'" for w in words
        )
        indexed = (
            "array_to_tsvector(string_to_array(remembered.words, ' ')) @@ CAST(:words AS tsquery)"
        )
        return text(indexed).bindparams(words=expression)  # type: ignore[return-value]

    def matching(self, text: str) -> Select[str]:
        """The ids of those that hold every word of the text, as a query; a text without any word
        finds nothing."""
        query = select(RememberedRow.investigation_id)
        words = search_words(text)
        return query.where(self._matches(words, every=True) if words else false())

    def _newest(
        self, *, since: datetime | None = None, before: datetime | None = None, limit: int
    ) -> Select[RememberedRow]:
        query = select(RememberedRow).where(*self._visible())
        query = query.order_by(RememberedRow.at.desc(), RememberedRow.investigation_id.desc())
        if since is not None:
            query = query.where(RememberedRow.at >= since)
        if before is not None:
            query = query.where(RememberedRow.at < before)
        return query.limit(max(0, min(limit, MAX_ROWS)))

    def _visible(self) -> list[ColumnElement[bool]]:
        """The condition on rows; nothing where all are seen."""
        return (
            [RememberedRow.investigation_id.in_(self._visibility.ids())]
            if not self._visibility.is_all
            else []
        )

    def _read(self) -> Session:
        return reading(self._engine)


def alike(alert: Alert) -> str:
    """Equal for alerts of the same words on the same service, whatever identity their vendor gave
    each of them."""
    parts = [alert.service or "", *words_of(alert.title, alert.signal or "")]
    return hashlib.sha256("\x00".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def storable(text: str, limit: int) -> str:
    """Text as both databases take it: no NUL, no lone surrogate, and not without end."""
    return text[:limit].replace("\x00", " ").encode("utf-8", "replace").decode()


def _words(investigation: EarlierInvestigation) -> tuple[str, ...]:
    causes = (
        part
        for c in investigation.causes
        for part in (c.subject, c.kind, *c.troubles, c.change or "", c.change_kind or "", c.summary)
    )
    texts = (
        investigation.title,
        investigation.system or "",
        investigation.verdict,
        investigation.headline,
    )
    return words_of(*texts, *investigation.services[:MAX_SERVICES], *causes)


def _by_id(investigation_id: str) -> Select[RememberedRow]:
    return select(RememberedRow).where(RememberedRow.investigation_id == investigation_id)


def _same(alert: Alert) -> ColumnElement[bool]:
    return or_(RememberedRow.fingerprint == alert.fingerprint, RememberedRow.alike == alike(alert))


def _of_services(services: Collection[str]) -> ColumnElement[bool]:
    names = sorted({storable(s, 200) for s in services})[:MAX_SERVICES]
    about = select(RememberedServiceRow.investigation_id).where(
        RememberedServiceRow.service.in_(names)
    )
    return RememberedRow.investigation_id.in_(about)


def _remembered(row: RememberedRow) -> EarlierInvestigation:
    return EarlierInvestigation.model_validate(row.content)
