"""The list of investigations, page by page, and what people said of their answers: right or wrong,
and what the cause was. From this the record of answers is counted.

Pages are identified by where they begin in the order (the newest first), not by a count of what is
skipped: the thousandth page costs what the first does, and what arrives meanwhile moves nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Engine,
    LargeBinary,
    Select,
    and_,
    cast,
    func,
    literal_column,
    or_,
    select,
)
from sqlalchemy.orm import Session

from faultline.analysis.case.earlier import RecordLevel, level_of
from faultline.analysis.secrets.redaction import masked
from faultline.bot.policy.people import without_mentions
from faultline.bot.policy.words import search_words
from faultline.bot.store.connections import reading, storable
from faultline.bot.store.memory import Memory
from faultline.bot.store.people_tables import LabelRow
from faultline.bot.store.tables import GroupedAlertRow, InvestigationRow, MuteRow
from faultline.bot.store.visibility import ALL, Visibility

MAX_CAUSE = 2_000
MAX_WHO = 200
COUNTED = 10_000
"""The newest labelled answers make the record."""
NO_ANSWER = "insufficient_evidence"
"""A verdict that is no answer: it can be neither right nor wrong about a cause."""


@dataclass(frozen=True)
class AnswerLabel:
    """One judgement of an answer. `cause` is empty where none was given."""

    investigation_id: str
    right: bool
    cause: str
    who: str
    at: datetime


@dataclass(frozen=True)
class Record:
    """Of `of` answers that were judged, `right` were right."""

    right: int
    of: int


class Labels:
    """All judgements that can be seen, on the tables of `faultline.bot.store`. The newest of an
    investigation holds."""

    def __init__(self, engine: Engine, visibility: Visibility = ALL) -> None:
        self._engine = engine
        self._visibility = visibility

    def visible_to(self, visibility: Visibility) -> Labels:
        """The same for somebody who sees less."""
        return Labels(self._engine, visibility)

    def write(
        self,
        investigation_id: str,
        *,
        right: bool,
        cause: str = "",
        who: str = "",
        now: datetime | None = None,
    ) -> AnswerLabel | None:
        """Keep a judgement; None when there is no such investigation. A judgement that already
        holds is not kept twice."""
        answer_label = AnswerLabel(
            investigation_id,
            right,
            # A person's words may hold a secret, or a mention that notifies others when quoted.
            storable(masked(without_mentions(cause).strip()), MAX_CAUSE),
            storable(who.strip(), MAX_WHO),
            now or datetime.now(UTC),
        )
        with Session(self._engine) as session, session.begin():
            if session.get(InvestigationRow, investigation_id) is None:
                return None
            row = session.scalar(_newest().where(LabelRow.investigation_id == investigation_id))
            if row is not None and (row.right, row.cause, row.who) == (
                right,
                answer_label.cause,
                answer_label.who,
            ):
                return _label(row)
            session.add(
                LabelRow(
                    investigation_id=investigation_id,
                    right=right,
                    cause=answer_label.cause,
                    who=answer_label.who,
                    at=answer_label.at,
                )
            )
        return answer_label

    def get(self, investigation_id: str) -> AnswerLabel | None:
        """The judgement that holds, or None."""
        return self.of([investigation_id]).get(investigation_id)

    def of(self, investigation_ids: Collection[str]) -> dict[str, AnswerLabel]:
        """The judgements that hold of these investigations."""
        query = _newest().where(
            LabelRow.investigation_id.in_(list(investigation_ids)), *self._visible()
        )
        with reading(self._engine) as session:
            return {row.investigation_id: _label(row) for row in session.scalars(query)}

    def all(self, limit: int = COUNTED) -> list[AnswerLabel]:
        """The judgements that hold, the newest first."""
        query = _newest().where(*self._visible()).order_by(LabelRow.id.desc()).limit(limit)
        with reading(self._engine) as session:
            return [_label(row) for row in session.scalars(query)]

    def count(self) -> int:
        """How many answers were judged."""
        with reading(self._engine) as session:
            return (
                session.scalar(
                    select(func.count(LabelRow.investigation_id.distinct())).where(*self._visible())
                )
                or 0
            )

    def record(self, *, but: str | None = None) -> tuple[RecordLevel, ...]:
        """How many answers were right, at each level of confidence that has judged ones; `but` one
        investigation."""
        query = (
            select(InvestigationRow.confidence, LabelRow.right)
            .join(InvestigationRow, InvestigationRow.id == LabelRow.investigation_id)
            .where(LabelRow.id.in_(newest_ids()), InvestigationRow.confidence.is_not(None))
            .where(
                InvestigationRow.verdict != NO_ANSWER,
                InvestigationRow.id != (but or ""),
                *self._visibility.where(),
            )
            .order_by(LabelRow.id.desc())
            .limit(COUNTED)
        )
        of: Counter[int] = Counter()
        right: Counter[int] = Counter()
        with reading(self._engine) as session:
            for confidence, is_right in session.execute(query):
                of[level_of(confidence or 0.0)] += 1
                right[level_of(confidence or 0.0)] += is_right
        return tuple(
            RecordLevel(level=level, right=right[level], of=of[level]) for level in sorted(of)
        )

    def record_at(self, confidence: float, *, but: str | None = None) -> Record:
        """How many answers at a similar confidence, the same tenth, were right."""
        level = level_of(confidence)
        return next(
            (Record(r.right, r.of) for r in self.record(but=but) if r.level == level), Record(0, 0)
        )

    def _visible(self) -> list[ColumnElement[bool]]:
        """The condition on rows; nothing where all are seen."""
        return (
            [LabelRow.investigation_id.in_(self._visibility.ids())]
            if not self._visibility.is_all
            else []
        )


def _newest() -> Select[LabelRow]:
    return select(LabelRow).where(LabelRow.id.in_(newest_ids()))


def newest_ids() -> Select[int]:
    """Ids of the judgements that hold."""
    # Ids grow with each judgement, so the highest is the newest.
    return select(func.max(LabelRow.id)).group_by(LabelRow.investigation_id)


def _label(row: LabelRow) -> AnswerLabel:
    cause = without_mentions(row.cause)
    return AnswerLabel(row.investigation_id, row.right, cause, row.who, row.at)


Judged = Literal["right", "wrong", "yes", "no"]
Alerts = Literal["grouped", "muted"]

MOST_COUNTED = 10_000
"""More are shown as "over 10,000": nobody pages through them, and counting them costs."""
RECENT = 3_000
"""The newest investigations whose services and sources one can choose from."""
MOST_CHOICES = 200


@dataclass(frozen=True)
class ListingFilter:
    """What is to be listed: all that is given must hold. Times are [since, before); confidences
    [least, most]."""

    words: str = ""
    status: str | None = None
    verdict: str | None = None
    service: str | None = None
    source: str | None = None
    least: float | None = None
    most: float | None = None
    since: datetime | None = None
    before: datetime | None = None
    judged: Judged | None = None
    alerts: Alerts | None = None


@dataclass(frozen=True)
class ListingCursor:
    """Where a page begins: at one investigation in the order."""

    at: datetime
    id: str


@dataclass(frozen=True)
class ListingPage:
    """One page of ids, the newest first, and where the pages beside it begin; None where there is
    none."""

    ids: tuple[str, ...]
    newer: ListingCursor | None
    older: ListingCursor | None


class Listing:
    """Reads the list of what can be seen, on the tables of `faultline.bot.store`."""

    def __init__(self, engine: Engine, visibility: Visibility = ALL) -> None:
        self._engine = engine
        self._visibility = visibility
        self._memory = Memory(engine)

    def visible_to(self, visibility: Visibility) -> Listing:
        """The same for somebody who sees less."""
        return Listing(self._engine, visibility)

    def page(
        self,
        listing_filter: ListingFilter,
        *,
        size: int,
        after: ListingCursor | None = None,
        before: ListingCursor | None = None,
    ) -> ListingPage:
        """The page that is older than `after`, or newer than `before`; without either the
        newest."""
        order = (InvestigationRow.accepted_at, InvestigationRow.id)
        cursor = before or after
        # One more than a page, to know whether another one follows.
        query = select(*order).where(*self._conditions(listing_filter)).limit(size + 1)
        if cursor is not None:
            query = query.where(_beyond(cursor, newer=before is not None))
        # Towards newer ones in ascending order, so that the nearest come first.
        query = query.order_by(*(order if before else (c.desc() for c in order)))
        with self._session() as session:
            rows = [ListingCursor(at, id_) for at, id_ in session.execute(query)]
        more, rows = len(rows) > size, rows[:size]
        if before is not None:
            rows.reverse()
        if not rows:
            return ListingPage((), None, None)
        # The page that the cursor came from is there for certain.
        newer = rows[0] if (more if before else after is not None) else None
        older = rows[-1] if (before is not None or more) else None
        return ListingPage(tuple(row.id for row in rows), newer, older)

    def count(self, listing_filter: ListingFilter) -> int:
        """How many there are, up to `MOST_COUNTED` and one."""
        some = (
            select(InvestigationRow.id)
            .where(*self._conditions(listing_filter))
            .limit(MOST_COUNTED + 1)
            .subquery()
        )
        with self._session() as session:
            return session.scalar(select(func.count()).select_from(some)) or 0

    def services(self) -> tuple[str, ...]:
        """Services of recent alerts, by name."""
        return self._recent("service")

    def sources(self) -> tuple[str, ...]:
        """Sources of recent alerts, by name."""
        return self._recent("source")

    def _recent(self, name: str) -> tuple[str, ...]:
        value = raw_alert_field(self._engine, name).label("value")
        newest = (
            select(value)
            .select_from(InvestigationRow)
            .where(*self._visibility.where())
            .order_by(InvestigationRow.accepted_at.desc())
            .limit(RECENT)
            .subquery()
        )
        query = (
            select(newest.c.value)
            .where(newest.c.value.is_not(None))
            .distinct()
            .order_by(newest.c.value)
        )
        with self._session() as session:
            rows = session.scalars(query.limit(MOST_CHOICES)).all()
        return tuple(text_of(v) for v in rows)

    def _conditions(self, listing_filter: ListingFilter) -> list[ColumnElement[bool]]:
        row = InvestigationRow
        filters: list[tuple[object, Any]] = [
            (listing_filter.status, lambda v: row.status == v),
            (listing_filter.verdict, lambda v: row.verdict == v),
            (listing_filter.service, lambda v: self._alerts("service") == v),
            (listing_filter.source, lambda v: self._alerts("source") == v),
            (listing_filter.least, lambda v: row.confidence >= v),
            (listing_filter.most, lambda v: row.confidence <= v),
            (listing_filter.since, lambda v: row.accepted_at >= v),
            (listing_filter.before, lambda v: row.accepted_at < v),
            (listing_filter.judged, _judged),
            (listing_filter.alerts, _of_alerts),
            (listing_filter.words or None, self._words),
        ]
        return [
            *self._visibility.where(),
            *(condition(value) for value, condition in filters if value is not None),
        ]

    def _alerts(self, name: str) -> ColumnElement[str]:
        return alert_field(self._engine, name)

    def _words(self, words: str) -> ColumnElement[bool]:
        """Answered ones by the full-text index; of the few others, those with every word in their
        alert's title."""
        is_indexed = InvestigationRow.id.in_(self._memory.matching(words))
        title = func.lower(self._alerts("title"))
        in_title = [title.contains(word, autoescape=True) for word in search_words(words)]
        return (
            or_(is_indexed, and_(InvestigationRow.status != "done", *in_title))
            if in_title
            else is_indexed
        )

    def _session(self) -> Session:
        return reading(self._engine)


def alert_field(engine: Engine, name: str) -> ColumnElement[Any]:
    """A field of the alert, written as the index on it is."""
    # As text and not as a parameter, or the expression is not that of the index.
    if engine.dialect.name == "sqlite":
        return literal_column(f"json_extract(investigations.alert, '$.{name}')")
    return literal_column(f"alert_field(investigations.alert, '{name}')")


def raw_alert_field(engine: Engine, name: str) -> ColumnElement[Any]:
    """The same to be read: SQLite gives it as bytes, as it may hold a lone surrogate, which is no
    text."""
    field = alert_field(engine, name)
    return cast(field, LargeBinary) if engine.dialect.name == "sqlite" else field


def text_of(value: bytes | str | None) -> str:
    """What `raw_alert_field` gave, as text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""


def _beyond(cursor: ListingCursor, *, newer: bool) -> ColumnElement[bool]:
    at, id_ = InvestigationRow.accepted_at, InvestigationRow.id
    if newer:
        return and_(at >= cursor.at, or_(at > cursor.at, id_ > cursor.id))
    return and_(at <= cursor.at, or_(at < cursor.at, id_ < cursor.id))


def _judged(how: Judged) -> ColumnElement[bool]:
    query = select(LabelRow.investigation_id).where(LabelRow.id.in_(newest_ids()))
    if how in ("right", "wrong"):
        query = query.where(LabelRow.right.is_(how == "right"))
    judged = InvestigationRow.id.in_(query)
    return ~judged if how == "no" else judged


def _of_alerts(what: Alerts) -> ColumnElement[bool]:
    if what == "grouped":
        return InvestigationRow.id.in_(select(GroupedAlertRow.investigation_id))
    now = datetime.now(UTC)
    holding = select(MuteRow.fingerprint).where(MuteRow.until > now, MuteRow.ended_at.is_(None))
    return InvestigationRow.fingerprint.in_(holding)


def choices(values: Sequence[str], chosen: str | None) -> tuple[str, ...]:
    """The values with the chosen one, which may be none of the recent ones."""
    return tuple(values) if not chosen or chosen in values else (chosen, *values)
